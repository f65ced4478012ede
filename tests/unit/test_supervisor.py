"""Launching, watching and removing a gang, whatever happens on the way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from lockstep import log_follower, removal, slow_start, supervisor
from lockstep.cluster import AlreadyExists, LogLine
from lockstep.errors import ClusterUnavailable, GangFailed, GangLost, GangTimedOut
from lockstep.event_stream import EventStream
from lockstep.gang_object import GangObject
from lockstep.parsing import parse, to_json
from lockstep.pod_event import PodEvent, PodsListed
from lockstep.pod_plan import GangPlan, plan_gang, replan
from lockstep.running_gang import RunningGang
from lockstep.supervisor import launch, leave, supervise
from tests.unit.builders import GANG, spec
from tests.unit.memory_cluster import MemoryCluster

DONE: dict[str, Any] = {"phase": "Succeeded", "started": True, "exit_code": 0}
KILLED: dict[str, Any] = {"phase": "Failed", "started": True, "exit_code": 137, "node": "node-b"}


class TickingClock:
    """Time that passes only when the test says."""

    def __init__(self) -> None:
        self.seconds = 1_000.0

    def now(self) -> float:
        return self.seconds


def plan(workers: int = 2, **given: Any) -> GangPlan:
    return plan_gang(spec(workers=workers, **given), GANG, attempt=1)


async def test_a_launch_creates_exactly_one_pod_a_worker_and_one_service() -> None:
    cluster = MemoryCluster()
    running = await launch(plan(3), cluster, TickingClock())
    assert dict(cluster.requests) == {"create_service": 1, "create_pod": 3}
    assert running.uids == tuple(pod.uid for pod in sorted(cluster.living.values(), key=lambda pod: pod.rank))


async def test_further_objects_are_there_before_the_pods_in_the_order_of_the_plan() -> None:
    cluster = MemoryCluster()
    things = tuple(
        GangObject(plural="things", manifest={"apiVersion": "x/v1", "kind": "Thing", "metadata": {"name": name}})
        for name in ("first", "second")
    )
    cluster.fail_on["create_pod", 1] = ClusterUnavailable("no answer")
    with pytest.raises(ClusterUnavailable, match="no answer"):
        await launch(replace(plan(), objects=things), cluster, TickingClock())
    assert [thing.name for thing in cluster.objects] == ["first", "second"]


@pytest.mark.parametrize(("clean_up", "left"), [("delete", 0), ("delete_succeeded", 0), ("keep", 2)])
async def test_success_names_the_pods_that_prove_it_and_they_stay_until_the_task_knows(
    clean_up: str, left: int
) -> None:
    """A triggerer that is restarted before it could tell reads the proof again."""
    cluster = MemoryCluster()
    running = await launch(plan(clean_up=clean_up), cluster, TickingClock())
    cluster.change(0, **DONE)
    cluster.change(1, **DONE)
    for _ in range(2):
        assert (await supervise(running, cluster, TickingClock())).uids == running.uids
    await leave(running, cluster)
    assert len(cluster.living) == left


@pytest.mark.parametrize(("clean_up", "left"), [("delete", set()), ("delete_succeeded", {1}), ("keep", {1})])
async def test_pods_of_a_failed_gang_are_kept_on_request_and_running_ones_never(clean_up: str, left: set[int]) -> None:
    cluster = MemoryCluster()
    running = await launch(plan(3, clean_up=clean_up), cluster, TickingClock())
    cluster.change(1, **KILLED)
    with pytest.raises(GangLost):
        await supervise(running, cluster, TickingClock())
    assert {pod.rank for pod in cluster.living.values()} == left


async def test_pods_that_were_kept_make_way_for_the_next_attempt() -> None:
    cluster, clock = MemoryCluster(), TickingClock()
    running = await launch(plan(clean_up="keep"), cluster, clock)
    cluster.change(1, **KILLED)
    with pytest.raises(GangLost):
        await supervise(running, cluster, clock)
    again = await launch(replan(plan(clean_up="keep"), 2), cluster, clock)
    assert (again.attempt, len(cluster.living)) == (2, 2)
    assert {pod.attempt for pod in cluster.living.values()} == {2}


async def test_pods_that_do_not_start_are_told_with_what_the_cluster_warns_of() -> None:
    cluster, clock = MemoryCluster(), TickingClock()
    running = await launch(plan(timeouts={"startup_s": 1}), cluster, clock)
    cluster.warned = tuple(f"w{rank}: FailedMount: no\n  volume" for rank in range(5))
    watching = asyncio.create_task(supervise(running, cluster, clock))
    await asyncio.sleep(0)
    clock.seconds += 2
    cluster.change(0, waiting_reason="ContainerCreating")
    with pytest.raises(GangTimedOut) as told:
        await watching
    assert "worker 0 waits for its container: ContainerCreating" in str(told.value)
    assert str(told.value).endswith("w2: FailedMount: no volume (and of 2 more)")


async def test_why_a_gang_does_not_run_is_told_while_it_waits(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slow_start, "FIRST_TOLD_AFTER_S", 0.01)
    cluster, clock = MemoryCluster(), TickingClock()
    cluster.warned = ("lockstep-1: Pending: insufficient quota for cpu",)
    running = await launch(plan(), cluster, clock)
    watching = asyncio.create_task(supervise(running, cluster, clock))
    cluster.change(0, queued=True)
    cluster.change(1, unscheduled="no node fits")
    while "does not run yet" not in caplog.text:  # noqa: ASYNC110 - logs are no events
        await asyncio.sleep(0)
    for rank in range(2):
        cluster.change(rank, queued=False, **DONE)
    await watching
    (told,) = {each.getMessage() for each in caplog.records if "does not run yet" in each.getMessage()}
    assert "worker 0 waits in the queue; worker 1 cannot be scheduled: no node fits" in told
    assert told.endswith("; the cluster warns of lockstep-1: Pending: insufficient quota for cpu")


async def test_all_logs_are_shown_on_request(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    cluster = MemoryCluster()
    running = await launch(plan(3, logs="all"), cluster, TickingClock())
    for rank in range(3):
        cluster.change(rank, phase="Running", started=True)
    watching = asyncio.create_task(supervise(running, cluster, TickingClock()))
    while not all(f"[worker {rank}] hello" in caplog.text for rank in (1, 2)):  # noqa: ASYNC110 - logs are no events
        await asyncio.sleep(0)
    for rank in range(3):
        cluster.change(rank, **DONE)
    await watching
    assert "[chief] hello" in caplog.text


@pytest.mark.parametrize("queued", [False, True])
async def test_who_takes_over_an_old_gang_looks_at_it_before_any_limit_counts(queued: bool) -> None:
    """A triggerer that is started anew knows nothing of the pods that have trained for hours."""
    cluster, clock = MemoryCluster(), TickingClock()
    running = replace(await launch(plan(), cluster, clock), in_queue=queued)
    for rank in range(2):
        cluster.change(rank, phase="Running", started=True)
    clock.seconds += 10 * running.timeouts.startup_s
    watching = asyncio.create_task(supervise(running, cluster, clock))
    await asyncio.sleep(0.1)
    assert not watching.done()
    for rank in range(2):
        cluster.change(rank, **DONE)
    assert (await watching).uids == running.uids


async def test_one_dead_worker_ends_the_others_and_is_named() -> None:
    cluster = MemoryCluster()
    running = await launch(plan(3), cluster, TickingClock())
    watching = asyncio.create_task(supervise(running, cluster, TickingClock()))
    await asyncio.sleep(0)
    cluster.change(2, **KILLED)
    with pytest.raises(GangLost, match=r"worker 2 on node-b .*killed \(SIGKILL\).*the 2 others were ended with it"):
        await watching
    assert not cluster.living


async def test_what_its_user_must_mend_is_told_apart_from_what_another_try_may_help() -> None:
    cluster = MemoryCluster()
    running = await launch(plan(), cluster, TickingClock())
    cluster.change(1, phase="Failed", started=True, exit_code=1)
    with pytest.raises(GangFailed):
        await supervise(running, cluster, TickingClock())


async def test_a_pod_of_another_uid_changes_nothing() -> None:
    """Events of older attempts, and of pods that somebody else made, prove nothing."""
    cluster = MemoryCluster()
    running = await launch(plan(), cluster, TickingClock())
    cluster.change(0, **DONE)
    cluster.change(1, **DONE, uid="another")
    with pytest.raises(GangLost, match=r"worker 1 .*deleted from outside"):
        await supervise(running, cluster, TickingClock())


async def test_a_gang_that_vanished_while_nobody_watched_has_failed() -> None:
    cluster = MemoryCluster()
    running = await launch(plan(), cluster, TickingClock())
    cluster.vanish(0)
    cluster.vanish(1)
    with pytest.raises(GangLost, match="deleted from outside"):
        await supervise(running, cluster, TickingClock())


@pytest.mark.parametrize(
    ("clean_up", "created"),
    [
        pytest.param("delete", 2, id="what stands was not told yet"),
        pytest.param("keep", 4, id="what stands may be from long ago"),
    ],
)
async def test_pods_that_are_kept_are_no_success_of_a_task_that_is_cleared(clean_up: str, created: int) -> None:
    cluster, clock = MemoryCluster(), TickingClock()
    await launch(plan(clean_up=clean_up), cluster, clock)
    cluster.change(0, **DONE)
    cluster.change(1, **DONE)
    await launch(plan(clean_up=clean_up), cluster, clock)
    assert cluster.requests["create_pod"] == created


async def test_a_new_try_takes_over_a_gang_that_is_whole_and_well() -> None:
    cluster, clock = MemoryCluster(), TickingClock()
    before = await launch(plan(), cluster, clock)
    cluster.change(0, phase="Running", started=True)
    after = await launch(plan(), cluster, clock)
    assert after.uids == before.uids
    assert cluster.requests["create_pod"] == 2


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda cluster: cluster.vanish(1), id="a pod is missing"),
        pytest.param(lambda cluster: cluster.change(1, **KILLED), id="a pod has failed"),
        pytest.param(lambda cluster: cluster.change(1, deletion_due=1_030.0), id="a pod is being deleted"),
        pytest.param(lambda cluster: cluster.change(1, spec="other"), id="a pod was launched with another spec"),
    ],
)
async def test_anything_else_is_removed_and_launched_under_the_next_attempt(damage: Any) -> None:
    cluster, clock = MemoryCluster(), TickingClock()
    before = await launch(plan(), cluster, clock)
    damage(cluster)
    after = await launch(plan(), cluster, clock)
    assert after.attempt == 2
    assert not set(before.uids) & set(after.uids)
    assert {pod.attempt for pod in cluster.living.values()} == {2}


async def test_what_an_earlier_try_left_is_listed_once_however_many_pods_it_had() -> None:
    cluster, clock = MemoryCluster(), TickingClock()
    await launch(plan(5), cluster, clock)
    cluster.change(1, **KILLED)
    await launch(plan(5), cluster, clock)
    assert cluster.requests["pods"] == 1


async def test_a_task_that_is_cleared_waits_until_the_pods_of_the_ended_one_have_left() -> None:
    """Their Service is gone at once; they have the grace that they were given."""
    cluster, clock = MemoryCluster(), TickingClock()
    before = await launch(plan(), cluster, clock)
    cluster.keep_pods = True
    await cluster.delete(GANG, 30)
    launching = asyncio.create_task(launch(plan(), cluster, clock))
    while cluster.requests["delete"] < 2:  # noqa: ASYNC110 - of requests the cluster in memory makes no events
        await asyncio.sleep(0)
    cluster.vanish(0)
    cluster.vanish(1)
    after = await launching
    assert (after.attempt, len(cluster.living)) == (2, 2)
    assert not set(before.uids) & set(after.uids)


async def test_nothing_is_launched_beside_pods_of_another_attempt_whose_service_is_gone() -> None:
    """They save what they have in the same run directory, and a next try that knows of no attempt begins with 1."""
    cluster, clock = MemoryCluster(), TickingClock()
    await launch(replan(plan(), 2), cluster, clock)
    cluster.keep_pods = True
    await cluster.delete(GANG, 30)
    launching = asyncio.create_task(launch(plan(), cluster, clock, again=True))
    while cluster.requests["delete"] < 2:  # noqa: ASYNC110 - of requests the cluster in memory makes no events
        await asyncio.sleep(0)
    assert {pod.attempt for pod in cluster.living.values()} == {2}
    cluster.vanish(0)
    cluster.vanish(1)
    after = await launching
    assert (after.attempt, len(cluster.living)) == (3, 2)


async def test_attempts_never_count_backwards() -> None:
    """A process that was killed after the Service and before the pods leaves nothing that tells of the attempt."""
    cluster, clock = MemoryCluster(), TickingClock()
    await cluster.create_service(replan(plan(), 3))
    assert (await launch(replan(plan(), 3), cluster, clock)).attempt == 3


async def test_a_name_that_somebody_else_has_taken_is_told_and_nothing_is_left() -> None:
    cluster, clock = MemoryCluster(), TickingClock()
    cluster.fail_on["create_pod", 1] = cluster.fail_on["create_pod", 3] = AlreadyExists("create pod w0")
    with pytest.raises(ClusterUnavailable, match="cannot create pod w0: another object has that name"):
        await launch(plan(), cluster, clock)
    assert not cluster.living
    assert cluster.service is None


async def test_a_log_that_cannot_be_read_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = MemoryCluster()
    running = await launch(plan(), cluster, TickingClock())

    async def log(pod: str, since: object) -> AsyncIterator[LogLine]:
        raise ValueError("no time stamp")
        yield

    monkeypatch.setattr(cluster, "log", log)
    cluster.change(0, phase="Running", started=True)
    watching = asyncio.create_task(supervise(running, cluster, TickingClock()))
    await asyncio.sleep(0)
    cluster.change(0, **DONE)
    cluster.change(1, **DONE)
    assert (await watching).uids == running.uids


async def test_a_failure_does_not_wait_for_the_log_of_a_worker_that_still_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_follower, "DRAIN_TIMEOUT_S", 600.0)
    cluster = MemoryCluster()
    running = await launch(plan(), cluster, TickingClock())
    following = asyncio.Event()

    async def log(pod: str, since: object) -> AsyncIterator[LogLine]:
        following.set()
        await asyncio.Event().wait()
        yield

    monkeypatch.setattr(cluster, "log", log)
    cluster.change(0, phase="Running", started=True)
    watching = asyncio.create_task(supervise(running, cluster, TickingClock()))
    await following.wait()
    cluster.change(1, phase="Failed", started=True, exit_code=1)
    with pytest.raises(GangFailed):
        await asyncio.wait_for(watching, 60)


async def test_the_end_of_a_watch_closes_it() -> None:
    """Whatever it waits for at that moment."""
    closed = []

    async def events() -> AsyncGenerator[PodEvent]:
        try:
            yield PodsListed(())
            await asyncio.Event().wait()
        finally:
            closed.append(True)

    async with EventStream(events()) as between_events:
        await between_events.next_within(None)
    async with EventStream(events()) as waiting:
        await waiting.next_within(None)
        assert await waiting.next_within(0) is None
    assert closed == [True, True]


async def test_a_launch_that_fails_half_way_leaves_nothing() -> None:
    cluster = MemoryCluster()
    cluster.fail_on["create_pod", 2] = ClusterUnavailable("no answer")
    with pytest.raises(ClusterUnavailable, match="no answer"):
        await launch(plan(3), cluster, TickingClock())
    assert not cluster.living
    assert cluster.service is None


async def test_a_launch_that_fails_leaves_the_launch_of_another_process_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Airflow has given this process up, and the next try has replaced what it had begun. The pod that this one was
    still creating when the other deleted all goes by force."""
    monkeypatch.setattr(removal, "CLEAN_UP_TIMEOUT_S", 0.1 - supervisor.FAILED_GRACE_S)
    cluster, clock = MemoryCluster(), TickingClock()
    theirs: list[RunningGang] = []

    async def replaced() -> None:
        cluster.fail_on.clear()
        theirs.append(await launch(plan(), cluster, clock, again=True))

    create_pod = cluster.create_pod

    async def create_too_late(planned: GangPlan, worker: Any, owner_uid: str) -> Any:
        if not theirs and worker.rank == 1:
            cluster.create_pod = create_pod  # type: ignore[method-assign]
            await replaced()
            raise ClusterUnavailable("no answer")
        return await create_pod(planned, worker, owner_uid)

    cluster.create_pod = create_too_late  # type: ignore[method-assign]
    with pytest.raises(ClusterUnavailable, match="no answer"):
        await launch(plan(), cluster, clock)
    assert {pod.uid for pod in cluster.living.values()} == set(theirs[0].uids)
    assert cluster.service == theirs[0].launch


async def test_a_creation_on_its_way_is_awaited_before_the_rest_is_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Broken off, its request could still make a pod after the clean-up."""
    cluster, refused = MemoryCluster(), asyncio.Event()
    create_pod = cluster.create_pod

    async def create(plan: Any, worker: Any, owner_uid: str) -> Any:
        if worker.rank > 0:
            refused.set()
            raise ClusterUnavailable("no answer")
        await refused.wait()
        await asyncio.sleep(0)
        return await create_pod(plan, worker, owner_uid)

    monkeypatch.setattr(cluster, "create_pod", create)
    with pytest.raises(ClusterUnavailable, match="no answer"):
        await launch(plan(), cluster, TickingClock())
    assert cluster.requests["create_pod"] == 1
    assert not cluster.living


async def test_pods_of_a_lost_node_are_removed_by_force(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody there says that they have ended, and nothing may start in their place before they are gone."""
    monkeypatch.setattr(removal, "CLEAN_UP_TIMEOUT_S", 0.1 - supervisor.FAILED_GRACE_S)
    cluster = MemoryCluster()
    running = await launch(plan(), cluster, TickingClock())
    cluster.change(1, **KILLED)
    cluster.keep_pods = True
    with pytest.raises(GangLost) as caught:
        await supervise(running, cluster, TickingClock())
    assert not hasattr(caught.value, "__notes__")
    assert not cluster.living
    assert cluster.requests["delete"] == 2


async def test_a_failed_clean_up_is_noted_on_the_cause_and_never_raised_over_it() -> None:
    cluster = MemoryCluster()
    running = await launch(plan(), cluster, TickingClock())
    cluster.change(1, **KILLED)
    cluster.fail_on["delete", 1] = ClusterUnavailable("no answer")
    with pytest.raises(GangLost) as caught:
        await supervise(running, cluster, TickingClock())
    assert caught.value.__notes__ == ["and the clean-up failed: no answer"]


async def test_a_watch_that_breaks_ends_the_gang_and_its_end_is_watched_anew() -> None:
    cluster = MemoryCluster()
    running = await launch(plan(), cluster, TickingClock())
    watching = asyncio.create_task(supervise(running, cluster, TickingClock()))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    cluster.break_watches(ClusterUnavailable("no answer"))
    with pytest.raises(ClusterUnavailable, match="no answer") as caught:
        await watching
    assert not hasattr(caught.value, "__notes__")
    assert not cluster.living


async def test_a_cancelled_watcher_leaves_the_gang_to_the_next_one() -> None:
    """A triggerer that restarts must not end what it watches."""
    cluster = MemoryCluster()
    running = await launch(plan(), cluster, TickingClock())
    watching = asyncio.create_task(supervise(running, cluster, TickingClock()))
    await asyncio.sleep(0)
    watching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await watching
    assert len(cluster.living) == 2
    cluster.change(0, **DONE)
    cluster.change(1, **DONE)
    assert (await supervise(running, cluster, TickingClock())).uids == running.uids


async def test_a_deadline_ends_the_gang_without_any_event() -> None:
    cluster, clock = MemoryCluster(), TickingClock()
    running = await launch(plan(), cluster, clock, deadline=clock.now())
    with pytest.raises(GangTimedOut, match="execution_timeout"):
        await supervise(running, cluster, clock)
    assert not cluster.living


async def test_what_the_trigger_carries_reads_back_equal() -> None:
    running = await launch(plan(), MemoryCluster(), TickingClock())
    assert parse(RunningGang, to_json(running), what="trigger") == running


OWN = {"command": ["python", "own.py"]}
SERVED = {"chief": OWN, "worker": OWN, "ps": OWN, "evaluator": OWN}


async def test_who_served_a_training_is_ended_once_it_has_succeeded() -> None:
    """The pods that prove the success stay until the task knows."""
    cluster = MemoryCluster()
    running = await launch(plan(roles=SERVED), cluster, TickingClock())
    cluster.change(0, **DONE)
    cluster.change(1, **DONE)
    finish = await supervise(running, cluster, TickingClock())
    assert finish.uids == running.uids[:2]
    assert {pod.rank for pod in cluster.living.values()} == {0, 1}


async def test_helpers_that_cannot_be_ended_do_not_undo_the_success() -> None:
    cluster = MemoryCluster()
    running = await launch(plan(roles=SERVED, clean_up="keep"), cluster, TickingClock())
    cluster.change(0, **DONE)
    cluster.change(1, **DONE)
    cluster.fail_on["delete", 1] = ClusterUnavailable("no answer")
    await supervise(running, cluster, TickingClock())
    await leave(running, cluster)
    assert {pod.rank for pod in cluster.living.values()} == {0, 1}


@pytest.mark.parametrize(("rank", "title"), [(2, "ps 0"), (3, "evaluator 0")])
async def test_a_dead_helper_ends_the_training_and_is_named(rank: int, title: str) -> None:
    cluster = MemoryCluster()
    running = await launch(plan(roles=SERVED), cluster, TickingClock())
    cluster.change(rank, **KILLED)
    with pytest.raises(GangLost, match=rf"^{title} on node-b "):
        await supervise(running, cluster, TickingClock())
    assert not cluster.living


@pytest.mark.parametrize("leaving", [False, True], ids=["gone", "on their way out"])
async def test_a_training_that_has_succeeded_is_not_started_again_for_its_helpers(leaving: bool) -> None:
    cluster, clock = MemoryCluster(), TickingClock()
    before = await launch(plan(roles=SERVED), cluster, clock)
    cluster.change(0, **DONE)
    cluster.change(1, **DONE)
    if leaving:
        cluster.change(2, phase="Failed", started=True, exit_code=137, deletion_due=1_030.0)
        cluster.vanish(3)
    else:
        await supervise(before, cluster, clock)
    after = await launch(plan(roles=SERVED), cluster, clock)
    assert (await supervise(after, cluster, clock)).uids == before.uids[:2]
    assert cluster.requests["create_pod"] == 4


async def test_what_the_trigger_carries_of_roles_reads_back_equal() -> None:
    running = await launch(plan(roles=SERVED), MemoryCluster(), TickingClock())
    assert parse(RunningGang, to_json(running), what="trigger") == running
    assert running.roles == ("chief", "worker", "ps", "evaluator")
