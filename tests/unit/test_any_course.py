"""Whatever happens to a gang and its watch, nothing of it runs when its supervision is over."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lockstep import removal, supervisor
from lockstep.errors import ClusterUnavailable, LockstepError
from lockstep.pod_plan import plan_gang
from lockstep.running_gang import RunningGang
from lockstep.supervisor import launch, leave, supervise
from tests.unit.builders import GANG, spec
from tests.unit.memory_cluster import MemoryCluster

OWN = {"command": ["python", "own.py"]}
SERVED = {"chief": OWN, "worker": OWN, "ps": OWN, "evaluator": OWN}
RANKS = 4
LIMITS = {"queue_s": 500.0, "startup_s": 100.0, "run_s": 1_000.0, "grace_s": 1}
STATUS = st.sampled_from(
    [
        {"phase": "Running", "started": True},
        {"phase": "Succeeded", "started": True, "exit_code": 0},
        {"phase": "Succeeded", "started": True, "exit_code": None},
        *({"phase": "Failed", "started": True, "exit_code": code} for code in (1, 69, 75, 137, 143)),
        {"phase": "Failed"},
        {"phase": "Unknown"},
        {"queued": True},
        {"waiting_reason": "ErrImagePull"},
        {"deletion_due": 1_030.0},
    ]
)
HAPPENS = st.one_of(
    st.tuples(st.just("change"), st.integers(0, RANKS - 1), STATUS),
    st.tuples(st.just("vanish"), st.integers(0, RANKS - 1)),
    st.tuples(st.just("replace"), st.integers(0, RANKS - 1)),
    st.tuples(st.just("pass"), st.floats(0, 300)),
    st.tuples(st.just("all are done")),
    st.tuples(st.just("break watches")),
    st.tuples(st.just("cancel")),
)


class Clock:
    def __init__(self) -> None:
        self.seconds = 1_000.0

    def now(self) -> float:
        return self.seconds


class Course:
    """One gang in memory, and who watches it: the next one where a watcher is cancelled, as triggerers do."""

    def __init__(self, cluster: MemoryCluster, running: RunningGang, clock: Clock) -> None:
        self.cluster, self.running, self.clock = cluster, running, clock
        self.watching = self._watch()

    def _watch(self) -> asyncio.Task[Any]:
        return asyncio.create_task(supervise(self.running, self.cluster, self.clock))

    async def happen(self, what: str, *details: Any) -> None:
        there = {pod.rank for pod in self.cluster.living.values()}
        unended = {pod.rank for pod in self.cluster.living.values() if not pod.ended}
        match what, details:
            case "change", (rank, status) if rank in unended:
                self.cluster.change(rank, **status)
            case "vanish", (rank,) if rank in there:
                self.cluster.vanish(rank)
            case "replace", (rank,) if rank in there:
                self.cluster.recreate(rank, uid="another", phase="Succeeded", started=True, exit_code=0)
            case "all are done", _:
                for rank in unended:
                    self.cluster.change(rank, phase="Succeeded", started=True, exit_code=0)
            case "pass", (seconds,):
                self.clock.seconds += seconds
            case "break watches", _:
                self.cluster.break_watches(ClusterUnavailable("no answer"))
            case "cancel", _ if not self.watching.done():
                self.watching.cancel()
                with suppress(asyncio.CancelledError, LockstepError):
                    await self.watching
                if self.watching.cancelled():
                    self.watching = self._watch()
        await settled()

    async def end(self) -> LockstepError | None:
        """All time limits pass, and the watch says something: then, at the latest, it is over."""
        self.clock.seconds += 1e6
        for rank in {pod.rank for pod in self.cluster.living.values()}:
            self.cluster.change(rank)
        try:
            await asyncio.wait_for(self.watching, 10)
        except LockstepError as failure:
            return failure
        return None


async def settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


@settings(deadline=None)
@given(
    roles=st.sampled_from([None, SERVED]),
    clean_up=st.sampled_from(["delete", "delete_succeeded", "keep"]),
    logs=st.sampled_from(["chief", "all"]),
    node_is_lost=st.booleans(),
    deletion_fails=st.booleans(),
    course=st.lists(HAPPENS, max_size=10),
)
def test_nothing_that_runs_is_left_when_the_supervision_is_over(
    roles: Any, clean_up: str, logs: str, node_is_lost: bool, deletion_fails: bool, course: list[Any]
) -> None:
    """Unless the cluster would not delete it, which the error then says."""

    async def story() -> None:
        cluster, clock = MemoryCluster(), Clock()
        plan = plan_gang(
            spec(workers=2 if roles else RANKS, roles=roles, clean_up=clean_up, logs=logs, timeouts=LIMITS),
            GANG,
            attempt=1,
        )
        followed = Course(cluster, await launch(plan, cluster, clock), clock)
        cluster.keep_pods = node_is_lost
        if deletion_fails:
            cluster.fail_on["delete", 1] = ClusterUnavailable("no answer")
        await settled()
        for happens in course:
            await followed.happen(*happens)
        failure = await followed.end()
        if failure is None:
            with suppress(*[ClusterUnavailable] if deletion_fails else []):
                await leave(followed.running, cluster)
        if failure is None or "and the clean-up failed: no answer" not in failure.told:
            assert [pod for pod in cluster.living.values() if not pod.ended and pod.uid != "another"] == []

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(supervisor, "FAILED_GRACE_S", 1)
        patch.setattr(removal, "CLEAN_UP_TIMEOUT_S", 0.01 - 1)
        asyncio.run(story())
