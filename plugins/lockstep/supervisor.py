"""Launch, observe, decide, act, clean up: one implementation for a task that waits and for a trigger.

What to do is decided in `gang_state.py` and `adoption.py`; here it is only done. A gang outlives the cancelling of its
watcher, for the process that takes over; every other end removes it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass

from lockstep.adoption import adoptable, next_attempt
from lockstep.cluster import AlreadyExists, Clock, Cluster
from lockstep.errors import ClusterUnavailable, GangFailed, GangLost, GangTimedOut, LockstepError
from lockstep.event_stream import EventStream
from lockstep.failure_class import USERS_TO_MEND
from lockstep.gang_state import Abort, Fail, Finish, KeepWaiting, decide, gang_failures
from lockstep.gang_view import GangView, launched_view, observe
from lockstep.log_follower import LogFollowers
from lockstep.pod_plan import GangPlan, WorkerPod, replan
from lockstep.pod_snapshot import PodSnapshot
from lockstep.removal import Removal, removal_of
from lockstep.running_gang import RunningGang
from lockstep.slow_start import told_while_it_waits, warned

log = logging.getLogger(__name__)

CREATE_AT_ONCE = 16
FAILED_GRACE_S = 5
"""Grace for the rest of a failed gang: what it could still save is behind its last backup, or equal to it."""
TAIL_LINES = 20


async def launch(
    plan: GangPlan, cluster: Cluster, clock: Clock, deadline: float | None = None, *, again: bool = False
) -> RunningGang:
    """Bring the gang up, or take over the one that a lost try left running and well.

    Creates exactly one pod a worker. `again` says that there were launches before: it then waits for their pods to
    leave even where their Service is gone. Raises InvalidSpec, NotPermitted or ClusterUnavailable, with nothing left.
    """
    owner_uid = await cluster.create_service(plan)
    found = () if owner_uid is not None and not again else await cluster.pods(plan.gang)
    if owner_uid is None and adoptable(plan.spec, found):
        log.info("Taking over the gang that an earlier try launched: %s", ", ".join(pod.name for pod in found))
        return _running(plan, found, launched_at=_created(found, clock), deadline=deadline)
    if owner_uid is None:
        owner_uid, plan = await _replace(plan, found, cluster, FAILED_GRACE_S)
    elif found:
        owner_uid, plan = await _replace(plan, found, cluster, plan.spec.timeouts.grace_s)
    plan, pods = await _create_gang(plan, owner_uid, cluster)
    log.info("Launched %s, owned by Service %s; pods: %d", plan.gang, plan.service, len(pods))
    return _running(plan, pods, launched_at=clock.now(), deadline=deadline)


async def supervise(running: RunningGang, cluster: Cluster, clock: Clock) -> Finish:
    """Watch until every worker has returned 0. Nothing of the gang runs when this returns or raises.

    Pods that have all succeeded stay until the task knows (`leave`): whoever watches next can read their proof again.

    Raises GangFailed (its user can mend it), GangLost or GangTimedOut (another try may help), ClusterUnavailable.
    """
    async with EventStream(cluster.events(running.gang)) as events:
        watched = _Watched(running=running, events=events, view=launched_view(running, clock.now()))
        try:
            finish = await _watch(watched, cluster, clock)
        except Exception as failure:
            # On a watch of its own: this one may be what failed.
            await _note_failures(failure, end(running, cluster))
            raise
    if running.has_helpers:
        await _end_helpers(running, cluster)
    return finish


async def end(running: RunningGang, cluster: Cluster) -> None:
    """End a gang that has failed, but for the ended pods that shall be kept. Raises ClusterUnavailable."""
    await removal_of(running, FAILED_GRACE_S).carry_out(cluster)


async def leave(running: RunningGang, cluster: Cluster) -> None:
    """Delete what a gang that has succeeded leaves: nothing of it runs. Raises ClusterUnavailable."""
    if running.clean_up != "keep":
        await cluster.delete(running.gang, FAILED_GRACE_S, running.launch)
    elif running.has_helpers:
        await cluster.delete_running(running.gang, FAILED_GRACE_S, running.launch)


async def _end_helpers(running: RunningGang, cluster: Cluster) -> None:
    """End those that served a training that is over, with the grace that was asked for; `leave` tries once more."""
    try:
        await Removal(running.gang, running.launch, running.timeouts.grace_s, keep_ended=True).carry_out(cluster)
    except LockstepError as failure:
        log.warning("What served the training could not be ended: %s", failure)


def _running(plan: GangPlan, pods: Sequence[PodSnapshot], *, launched_at: float, deadline: float | None) -> RunningGang:
    uids = {pod.rank: pod.uid for pod in pods}
    return RunningGang(
        gang=plan.gang,
        namespace=plan.spec.namespace,
        attempt=pods[0].attempt,
        launch=pods[0].launch,
        uids=tuple(uids.get(rank, "") for rank in range(len(plan.workers))),
        timeouts=plan.spec.timeouts,
        launched_at=launched_at,
        in_queue=plan.spec.gang_scheduling is not None,
        clean_up=plan.spec.clean_up,
        logs=plan.spec.logs,
        roles=tuple(member.role for member in plan.spec.members) if plan.spec.roles else (),
        deadline=deadline,
    )


def _created(pods: Sequence[PodSnapshot], clock: Clock) -> float:
    return min((pod.created_at for pod in pods if pod.created_at is not None), default=clock.now())


async def _replace(
    plan: GangPlan, found: Sequence[PodSnapshot], cluster: Cluster, grace_s: int
) -> tuple[str, GangPlan]:
    log.info("Removing what an earlier try of %s left: %d pods", plan.gang, len(found))
    await Removal(plan.gang, None, grace_s).carry_out(cluster)
    plan = replan(plan, max(plan.attempt, next_attempt(found)))
    owner_uid = await cluster.create_service(plan)
    if owner_uid is None:
        raise ClusterUnavailable(f"Service {plan.service} came back while it was replaced: is {plan.gang} run twice?")
    return owner_uid, plan


async def _create_gang(plan: GangPlan, owner_uid: str, cluster: Cluster) -> tuple[GangPlan, list[PodSnapshot]]:
    """Create the pods, after those of a task that was ended just now have left, with the grace that they were given."""
    try:
        return plan, await _create_all_or_none(plan, owner_uid, cluster)
    except AlreadyExists:
        found = await cluster.pods(plan.gang)
    owner_uid, plan = await _replace(plan, found, cluster, plan.spec.timeouts.grace_s)
    try:
        return plan, await _create_all_or_none(plan, owner_uid, cluster)
    except AlreadyExists as taken:
        raise ClusterUnavailable(f"cannot {taken}: another object has that name; try again") from None


async def _create_all_or_none(plan: GangPlan, owner_uid: str, cluster: Cluster) -> list[PodSnapshot]:
    """What fails takes along what this launch has created, and nothing of another's."""
    try:
        return await _create_pods(plan, owner_uid, cluster)
    except Exception as failure:
        await _note_failures(failure, cluster.delete(plan.gang, FAILED_GRACE_S, owner_uid))
        raise


async def _create_pods(plan: GangPlan, owner_uid: str, cluster: Cluster) -> list[PodSnapshot]:
    """The pods, once all is there that must be there before them."""
    for thing in plan.objects:
        await cluster.create_object(plan, thing, owner_uid)
    at_once, failures = asyncio.Semaphore(CREATE_AT_ONCE), list[Exception]()

    async def create(worker: WorkerPod) -> PodSnapshot | None:
        async with at_once:
            if failures:
                return None
            try:
                return await cluster.create_pod(plan, worker, owner_uid)
            except Exception as failure:
                failures.append(failure)
                return None

    # Those on their way are awaited, too: broken off, they could still come to be after the rest is removed.
    created = await asyncio.gather(*map(create, plan.workers))
    if failures:
        raise failures[0]
    return [pod for pod in created if pod is not None]


@dataclass(kw_only=True, slots=True)
class _Watched:
    """A running gang and all that was seen of it so far."""

    running: RunningGang
    events: EventStream
    view: GangView

    async def look(self, clock: Clock, within_s: float | None = None) -> None:
        """Take in the next event, if one comes in time."""
        if (event := await self.events.next_within(within_s)) is not None:
            self.view = observe(self.view, event, clock.now())


async def _watch(watched: _Watched, cluster: Cluster, clock: Clock) -> Finish:
    running, failed_at = watched.running, None
    telling = told_while_it_waits(running, lambda: watched.view, cluster)
    async with telling, LogFollowers(cluster, running) as logs:
        # Nothing is overdue that was not looked at: who takes over an old gang has seen nothing of it yet.
        await watched.look(clock, None if running.deadline is None else max(0.0, running.deadline - clock.now()))
        while True:
            now = clock.now()
            if failed_at is None and gang_failures(watched.view, now):
                failed_at = now
            match decide(running, watched.view, now=now, failed_at=failed_at):
                case KeepWaiting(within_s=within_s):
                    logs.start(watched.view)
                    await watched.look(clock, within_s)
                case Finish() as finish:
                    await logs.drain(watched.view, whole=True)
                    log.info("Every worker of %s has succeeded: %d", running.gang, len(finish.uids))
                    return finish
                case Fail() as failed:
                    await logs.drain(watched.view, whole=False)
                    raise await _explained(failed, watched.view, cluster)
                case Abort(why=why, kind=kind):
                    raise GangTimedOut(f"{running.gang}: {why}{await warned(running, cluster)}", kind=kind)


async def _explained(failed: Fail, view: GangView, cluster: Cluster) -> LockstepError:
    """The error that ends the task: one line; what else is known goes into the log."""
    for failure in failed.failures:
        log.warning("Failed: %s", failure)
    if failed.cause.traceback:
        log.info("Traceback of %s:\n%s", failed.cause.title, failed.cause.traceback)
    elif tail := await cluster.tail(view.pods[failed.cause.rank].name, TAIL_LINES):
        log.info("The last lines of %s:\n%s", failed.cause.title, "\n".join(tail))
    kind = GangFailed if failed.cause.kind in USERS_TO_MEND else GangLost
    return kind(f"{failed.cause}{_others(failed.others)}", kind=failed.cause.kind, step=failed.cause.step)


def _others(count: int) -> str:
    return {0: "", 1: "; the other worker was ended with it"}.get(count, f"; the {count} others were ended with it")


async def _note_failures(failure: Exception, clean_up: Awaitable[None]) -> None:
    """Await the clean-up; what goes wrong in it is noted on the failure before it, never raised over that one."""
    try:
        await clean_up
    except Exception as also:
        failure.add_note(f"and the clean-up failed: {also}")
        log.warning("The clean-up failed: %s", also)
