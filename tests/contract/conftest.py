"""The cluster that the contract suite runs against.

The local one, unless LOCKSTEP_TEST_CLUSTER=real: then the one that $KUBECONFIG leads to, with LOCKSTEP_TEST_IMAGE (an
image with `python`, which the cluster can get).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from kubernetes.client import CoreV1Api
from kubernetes.watch import Watch

from tests.contract.cluster_api import WAIT_S, ClusterApi, api_of, unique
from tests.local.kube.running_server import IMAGE, start_server


@pytest.fixture(scope="session")
def cluster_kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    if os.environ.get("LOCKSTEP_TEST_CLUSTER") == "real":
        yield Path(os.environ["KUBECONFIG"])
        return
    server = start_server(tmp_path_factory.mktemp("kube"))
    yield server.kubeconfig
    assert server.end() == 0, "the local API ends in order"


@pytest.fixture(scope="session")
def cluster_api(cluster_kubeconfig: Path) -> Iterator[ClusterApi]:
    """A client of the cluster and a namespace that is deleted afterwards, with all that is left in it."""
    namespace, image = unique("lockstep-contract"), os.environ.get("LOCKSTEP_TEST_IMAGE", IMAGE)
    with api_of(cluster_kubeconfig, image, namespace) as api:
        api.core.create_namespace({"metadata": {"name": namespace}})
        wait_for_service_account(api.core, namespace)
        yield api
        api.core.delete_namespace(namespace)


def wait_for_service_account(core: CoreV1Api, namespace: str) -> None:
    """A controller makes it, soon after the namespace; pods need it."""
    options = {"field_selector": "metadata.name=default", "timeout_seconds": WAIT_S}
    for _ in Watch().stream(core.list_namespaced_service_account, namespace, **options):
        return
    raise AssertionError(f"namespace {namespace} got no service account")
