"""The NetworkPolicies of docker/kubernetes/, enforced: workers reach each other on their port, and nobody else does."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from lockstep.pod_security import RESTRICTED
from tests.cluster.certificates import Certificates
from tests.cluster.cluster import look
from tests.cluster.control_plane import ControlPlane
from tests.cluster.gangs import Gangs
from tests.cluster.installation import OBJECTS, Installation
from tests.cluster.machine_snapshot import look_at_machine
from tests.cluster.network_policies import enforced
from tests.cluster.programs import Programs, cache_folder
from tests.cluster.waiting import wait_until

pytestmark = [
    pytest.mark.alone,
    pytest.mark.skipif(
        look().layout is None, reason="the policies are enforced by a process of a node brought up here"
    ),
]

PORT, ANOTHER_PORT = 2222, 2223
SERVE = f"""
import socket, time
listening = [socket.create_server(("", port)) for port in ({PORT}, {ANOTHER_PORT})]
time.sleep(600)
"""
REACH = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=2); print('reached')"


@pytest.fixture
def plane() -> ControlPlane:
    layout = look().layout
    assert layout is not None
    certificates = Certificates(folder=layout.folder("certificates"))
    return ControlPlane(layout=layout, programs=Programs(cache=cache_folder()), certificates=certificates)


@pytest.fixture
def outsider(installation: Installation) -> Iterator[str]:
    """A pod of the same namespace that belongs to no gang."""
    installation.kubectl("create", "--filename=-", objects=pod("outsider", SERVE))
    installation.kubectl("wait", "pod/outsider", "--for=condition=Ready", "--timeout=60s")
    yield "outsider"
    installation.kubectl("delete", "pod", "outsider", "--now", "--wait=false")


async def test_workers_reach_each_other_on_their_port_and_nobody_else_reaches_them(
    real_gangs: Gangs, installation: Installation, plane: ControlPlane, outsider: str
) -> None:
    plan = real_gangs.plan(SERVE)
    peer, worker = (each.name for each in plan.workers)
    host = plan.workers[1].address.partition(":")[0]
    async with real_gangs.cluster.connected():
        await real_gangs.launch(plan)
        await real_gangs.started(plan)
        assert reaches(installation, outsider, host, PORT), "without enforcement everybody does"
        with enforced(plane):
            wait_until(lambda: not reaches(installation, outsider, host, PORT), what="the policy to hold", timeout_s=60)
            assert reaches(installation, peer, host, PORT)
            assert not reaches(installation, peer, host, ANOTHER_PORT)
            assert reaches(installation, worker, address(installation, outsider), ANOTHER_PORT), "outward is free"
        assert reaches(installation, outsider, host, PORT)
        assert not [rule for rule in look_at_machine().packet_filter if "KUBE-" in rule]
        await real_gangs.cluster.delete(plan.gang, 1)


async def test_a_gang_with_a_policy_of_its_own_is_not_reached_by_another_gang(
    real_gangs: Gangs, installation: Installation, plane: ControlPlane
) -> None:
    installation.add(OBJECTS / "network-policy-per-gang")
    first, second = (real_gangs.plan(SERVE, network_policy=True) for _ in range(2))
    host, peer, stranger = first.workers[1].address.partition(":")[0], first.workers[0].name, second.workers[0].name
    async with real_gangs.cluster.connected():
        for plan in (first, second):
            await real_gangs.launch(plan)
            await real_gangs.started(plan)
        with enforced(plane):
            wait_until(lambda: not reaches(installation, stranger, host, PORT), what="the policy to hold", timeout_s=60)
            assert reaches(installation, peer, host, PORT)
        for plan in (first, second):
            await real_gangs.cluster.delete(plan.gang, 1)


def reaches(installation: Installation, source: str, host: str, port: int) -> bool:
    shown = installation.kubectl("exec", source, "--", "python", "-c", REACH, host, str(port), check=False)
    return "reached" in shown


def address(installation: Installation, name: str) -> str:
    return installation.kubectl("get", "pod", name, "--output=jsonpath={.status.podIP}")


def pod(name: str, code: str) -> dict[str, Any]:
    container = {
        "name": "main",
        "image": os.environ["LOCKSTEP_TEST_IMAGE"],
        "command": ["python", "-uc", code],
        "securityContext": RESTRICTED["container_security_context"],
        "resources": {key: {"cpu": "50m", "memory": "64Mi"} for key in ("requests", "limits")},
    }
    spec = {"containers": [container], "securityContext": RESTRICTED["security_context"]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
