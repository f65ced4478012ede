"""The cluster that $KUBECONFIG leads to; without LOCKSTEP_TEST_CLUSTER=real, tests that need one are skipped.

`python -m tests.cluster test` (or `make test-cluster`) brings a node up and sets both, and LOCKSTEP_TEST_IMAGE.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.administrator import Administrator, administrator
from tests.cluster.gangs import CONN_ID, Gangs, gangs
from tests.cluster.installation import Installation, installed
from tests.cluster.kwok import fake_nodes
from tests.cluster.node_sharing import declare_marker

HERE = Path(__file__).parent


def pytest_configure(config: pytest.Config) -> None:
    declare_marker(config)  # also where the plugin itself is not loaded


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if os.environ.get("LOCKSTEP_TEST_CLUSTER") != "real":
        for item in items:
            if HERE in item.path.parents:
                item.add_marker(pytest.mark.skip(reason="needs a real cluster: make test-cluster"))


@pytest.fixture(scope="session")
def admin() -> Administrator:
    return administrator(Path(os.environ["KUBECONFIG"]))


@pytest.fixture
def installation(admin: Administrator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Installation]:
    """Lockstep's objects in namespaces of the test's own; Airflow's connection CONN_ID is the supervisor's."""
    with installed(admin, tmp_path) as made:
        monkeypatch.setenv(f"AIRFLOW_CONN_{CONN_ID.upper()}", made.connection)
        yield made


@pytest.fixture
def kwok_nodes(admin: Administrator) -> Iterator[None]:
    """Nodes that exist in name only, beside the real one."""
    nodes = list(fake_nodes(3))
    admin.apply(*nodes)
    names = [node["metadata"]["name"] for node in nodes]
    admin.kubectl("wait", "node", *names, "--for=condition=Ready", "--timeout=60s")
    yield
    admin.kubectl("delete", "node", *names)


@pytest.fixture
def real_gangs(installation: Installation) -> Gangs:
    return gangs(installation.namespace)
