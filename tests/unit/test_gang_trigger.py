"""The supervisor in the triggerer: what it tells the task, and how it takes being cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from lockstep.connected_gang import ConnectedGang
from lockstep.errors import ClusterUnavailable
from lockstep.pod_plan import plan_gang
from lockstep.restart_policy import Restarts
from lockstep.supervisor import launch
from lockstep.system_clock import SystemClock
from lockstep.triggers.gang import GangTrigger, gang_trigger
from tests.unit.builders import GANG, spec
from tests.unit.memory_cluster import MemoryCluster


@pytest.fixture
def cluster() -> MemoryCluster:
    return MemoryCluster()


@pytest.fixture(autouse=True)
def connected(cluster: MemoryCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every connection leads to the cluster in memory."""

    @asynccontextmanager
    async def connect(*_: Any, **__: Any) -> AsyncIterator[MemoryCluster]:
        yield cluster

    monkeypatch.setattr(ConnectedGang, "_cluster", connect)


async def trigger_of(cluster: MemoryCluster, **asked: Any) -> GangTrigger:
    """As the triggerer makes it from its row."""
    running = await launch(plan_gang(spec(**asked), GANG, attempt=1), cluster, SystemClock())
    _, row = gang_trigger(running, Restarts(), "kubernetes_default").serialize()
    return GangTrigger(**row)


@pytest.fixture
async def trigger(cluster: MemoryCluster) -> GangTrigger:
    return await trigger_of(cluster)


async def fired(trigger: GangTrigger) -> dict[str, Any]:
    (event,) = [event async for event in trigger.run()]
    return event.payload  # type: ignore[no-any-return]


async def test_a_failed_clean_up_is_told_with_the_cause(trigger: GangTrigger, cluster: MemoryCluster) -> None:
    """Its pods may still hold GPUs; the trigger's own log is not where one looks."""
    cluster.change(1, phase="Failed", started=True, exit_code=137)
    cluster.fail_on["delete", 1] = ClusterUnavailable("no answer")
    event = await fired(trigger)
    assert event["failed"]["error"].startswith("worker 1 ")
    assert event["failed"]["error"].endswith("; and the clean-up failed: no answer")
    assert event["failed"]["retryable"]


async def test_the_reason_of_a_cancelling_reaches_the_triggerer(trigger: GangTrigger, cluster: MemoryCluster) -> None:
    """By it alone the triggerer tells a person who ends the task from its own end, and calls `on_kill` or not."""
    reasons: list[Any] = []

    async def watch() -> None:
        try:
            await fired(trigger)
        except asyncio.CancelledError as cancelled:
            reasons.extend(cancelled.args)
            raise

    watching = asyncio.create_task(watch())
    cluster.change(0, phase="Running", started=True)
    for _ in range(20):  # until it waits for the watch and follows the log
        await asyncio.sleep(0)
    watching.cancel("a person")
    await asyncio.gather(watching, return_exceptions=True)
    assert reasons == ["a person"]
    assert len(cluster.living) == 2


async def test_a_person_who_ends_the_task_ends_the_gang(trigger: GangTrigger, cluster: MemoryCluster) -> None:
    await trigger.on_kill()
    assert not cluster.living


@pytest.mark.parametrize("clean_up", ["keep", "delete_succeeded"])
async def test_what_has_ended_by_then_is_kept_where_it_is_asked_for(cluster: MemoryCluster, clean_up: str) -> None:
    trigger = await trigger_of(cluster, clean_up=clean_up)
    cluster.change(1, phase="Failed", started=True, exit_code=1)
    await trigger.on_kill()
    assert [pod.rank for pod in cluster.living.values()] == [1]
