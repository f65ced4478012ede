"""What a pod's object tells of queues and evictions, read alike from the objects of both clients."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import kubernetes.client
import kubernetes_asyncio.client
import pytest

from lockstep.pod_snapshot import PodSnapshot, snapshot

BY_VOLCANO = {"lockstep/gang-scheduler": "volcano"}


@pytest.fixture(params=[kubernetes.client, kubernetes_asyncio.client], ids=["synchronous", "asynchronous"])
def client(request: pytest.FixtureRequest) -> ModuleType:
    module: ModuleType = request.param
    return module


def seen(
    client: Any, *, gates: tuple[str, ...] = (), node: str | None = None, labels: Any = None, **status: Any
) -> PodSnapshot:
    spec = client.V1PodSpec(
        containers=[client.V1Container(name="worker")],
        node_name=node,
        scheduling_gates=[client.V1PodSchedulingGate(name=gate) for gate in gates] or None,
    )
    own = {"lockstep/rank": "0", "lockstep/attempt": "1"}
    metadata = client.V1ObjectMeta(name="w0", uid="uid-0", labels=own | (labels or {}))
    return snapshot(
        client.V1Pod(metadata=metadata, spec=spec, status=client.V1PodStatus(**{"phase": "Pending"} | status))
    )


@pytest.mark.parametrize(
    ("pod", "queued"),
    [
        pytest.param({"gates": ("kueue.x-k8s.io/admission",)}, True, id="held by Kueue's gate"),
        pytest.param({"gates": ("example.com/any",)}, True, id="held by any other gate"),
        pytest.param({}, False, id="pending, to be placed by itself: it starts"),
        pytest.param({"labels": BY_VOLCANO}, True, id="to be placed with its gang, and not placed yet"),
        pytest.param({"labels": BY_VOLCANO, "node": "node-a"}, False, id="placed with its gang: it starts"),
        pytest.param({"labels": BY_VOLCANO, "phase": "Failed"}, False, id="failed before it was placed"),
    ],
)
def test_a_pod_is_queued_while_it_is_held_back_for_its_gang(client: Any, pod: dict[str, Any], queued: bool) -> None:
    assert seen(client, **pod).queued is queued


def test_who_ends_a_pod_before_its_time_says_why(client: Any) -> None:
    """As Kueue does, whose message names the workload that takes the place."""
    condition = client.V1PodCondition(
        type="TerminationTarget", status="True", reason="WorkloadEvicted", message="Preempted to accommodate another"
    )
    assert seen(client, conditions=[condition]).disruption == "WorkloadEvicted: Preempted to accommodate another"


def test_a_disruption_that_is_not_under_way_is_none(client: Any) -> None:
    condition = client.V1PodCondition(type="DisruptionTarget", status="False", reason="Rescued")
    assert seen(client, conditions=[condition]).disruption == ""
