"""One server for the tests of this folder; tests of its own life start others."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.cluster_api import ClusterApi, api_of
from tests.local.kube.kubectl import Kubectl, kubectl_program
from tests.local.kube.running_server import IMAGE, RunningServer, start_server


@pytest.fixture(scope="session")
def kube_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    server = start_server(tmp_path_factory.mktemp("kube"))
    yield server
    server.end()


@pytest.fixture
def kube(kube_server: RunningServer) -> Iterator[ClusterApi]:
    """The server's `default` namespace through the real client; pods of the test are deleted at its end."""
    with api_of(kube_server.kubeconfig, IMAGE) as client:
        yield client
        client.core.delete_collection_namespaced_pod(client.namespace, grace_period_seconds=0)


@pytest.fixture
def kubectl(kube_server: RunningServer, tmp_path: Path) -> Kubectl:
    """The machine's kubectl, led to the server; the test is skipped, saying so, where there is none."""
    program = kubectl_program()
    if program is None:
        pytest.skip("kubectl is not installed on this machine (looked in PATH)")
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "KUBECONFIG": str(kube_server.kubeconfig)}
    return Kubectl(program=program, env=env)
