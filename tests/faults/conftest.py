"""A real one-machine API behind a proxy that the test can spoil, and gangs that do what the test orders."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from kubernetes.client import CoreV1Api
from kubernetes.config import new_client_from_config

from lockstep.kubernetes_cluster import KubernetesCluster
from tests.airflow.kubernetes_connection import connect
from tests.faults.left_behind import await_nothing_left
from tests.faults.obedient_gang import ObedientGang
from tests.faults.unreliable_api import UnreliableApi
from tests.local.kube.running_server import RunningServer, start_server


@pytest.fixture(scope="session")
def fault_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    server = start_server(tmp_path_factory.mktemp("kube"))
    yield server
    server.end()


@pytest.fixture(scope="session")
def proxy(fault_server: RunningServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[UnreliableApi]:
    with UnreliableApi(fault_server.kubeconfig, tmp_path_factory.mktemp("proxy") / "kubeconfig") as api:
        yield api


@pytest.fixture
def api(proxy: UnreliableApi, monkeypatch: pytest.MonkeyPatch) -> Iterator[UnreliableApi]:
    """The proxy, well and counting from 0; `kubernetes_default` leads to it."""
    connect(monkeypatch, proxy.kubeconfig)
    proxy.forget()
    yield proxy
    proxy.forget()


@pytest.fixture
async def cluster(api: UnreliableApi) -> AsyncIterator[KubernetesCluster]:
    cluster = KubernetesCluster(conn_id="kubernetes_default", namespace="default")
    async with cluster.connected():
        yield cluster


@pytest.fixture
def core(fault_server: RunningServer) -> Iterator[CoreV1Api]:
    """Another client, which no fault concerns."""
    with new_client_from_config(str(fault_server.kubeconfig)) as client:
        yield CoreV1Api(client)


@pytest.fixture
def gang(tmp_path: Path, core: CoreV1Api) -> Iterator[ObedientGang]:
    """Whatever is done to it, in the end there is no pod of it, no Service and no process."""
    folder = tmp_path / "orders"
    folder.mkdir()
    obedient = ObedientGang(folder=folder)
    yield obedient
    await_nothing_left(core, obedient)
    assert not obedient.two_at_once
