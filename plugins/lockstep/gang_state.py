"""decide(): the gang that runs + what was seen of it + the time -> Decision. Pure.

The gang lives and dies as one: it has finished when every worker has, and failed when one has. Whoever only serves or
watches the training has no say in its success, but must live until then.
"""

from __future__ import annotations

from dataclasses import dataclass

from lockstep.failure import WorkerFailure, culprit, failure_of, first, overdue, overdue_at, silent, vanished
from lockstep.failure_class import FailureClass
from lockstep.gang_view import GangView
from lockstep.pod_snapshot import PodSnapshot
from lockstep.running_gang import RunningGang

BLAME_WINDOW_S = 10.0
"""How long to wait for a culprit where only peers have said so far that they lost one: the longest delay between the
end of a worker and its peers' errors that was measured (9 to 10 s, by TensorFlow's heartbeat)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class KeepWaiting:
    """Nothing to do before the next event, or before `within_s` seconds have passed (None: no limit)."""

    within_s: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Finish:
    """The container of every pod that must succeed returned 0; `uids` (by rank) are the pods that proved it."""

    uids: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Fail:
    """A worker died: `cause` is to be blamed, `others` died of it or are deleted now."""

    cause: WorkerFailure
    failures: tuple[WorkerFailure, ...]
    others: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Abort:
    """A time limit passed: `why` names the limit, and what each worker was waiting for.

    `kind` is set where a new start may help.
    """

    why: str
    kind: FailureClass | None = None


Decision = KeepWaiting | Finish | Fail | Abort


@dataclass(frozen=True, slots=True)
class _Limit:
    ends_at: float
    name: str
    kind: FailureClass | None = None


def decide(running: RunningGang, view: GangView, *, now: float, failed_at: float | None = None) -> Decision:
    """What the gang's state asks for. Total: any view at any time has exactly one answer.

    `now` and `failed_at`, when the first failure was seen, are seconds since the epoch.
    """
    if all(view.pods[rank].succeeded for rank in running.required):
        return Finish(uids=tuple(running.uids[rank] for rank in running.required))
    failures = gang_failures(view, now)
    if (cause := culprit(failures)) is not None:
        return Fail(cause=cause, failures=failures, others=running.workers - 1)
    if (collateral := first(failures)) is not None:
        waited_s = now - (now if failed_at is None else failed_at)
        return _wait_for_culprit(running, view, collateral, failures, waited_s)
    return _wait_within_limits(running, view, now)


def gang_failures(view: GangView, now: float) -> tuple[WorkerFailure, ...]:
    """Every failure that the view shows; a pod that is gone has failed unless it was seen to succeed."""
    dead = (_failure(pod, now, gone=rank in view.gone) for rank, pod in sorted(view.pods.items()))
    return tuple(failure for failure in dead if failure is not None)


def describe(view: GangView) -> str:
    """One clause a worker: what it does, or what it waits for."""
    return "; ".join(f"{pod.title} {_state(pod)}" for _, pod in sorted(view.pods.items()))


def _failure(pod: PodSnapshot, now: float, *, gone: bool) -> WorkerFailure | None:
    if (failure := failure_of(pod)) is not None or pod.succeeded:
        return failure
    if gone:
        return vanished(pod)
    given_up_at = overdue_at(pod)
    return overdue(pod) if given_up_at is not None and now >= given_up_at else None


def _wait_for_culprit(
    running: RunningGang,
    view: GangView,
    collateral: WorkerFailure,
    failures: tuple[WorkerFailure, ...],
    waited_s: float,
) -> Decision:
    """Whoever is lost is to blame: a worker that ends badly yet, or else one of which nothing is heard."""
    told = {failure.rank for failure in failures}
    unheard = [silent(pod) for rank, pod in sorted(view.pods.items()) if rank not in told and _has_peers(pod)]
    if unheard and waited_s < BLAME_WINDOW_S:
        return KeepWaiting(within_s=BLAME_WINDOW_S - waited_s)
    return Fail(cause=first(unheard) or collateral, failures=(*failures, *unheard), others=running.workers - 1)


def _has_peers(pod: PodSnapshot) -> bool:
    """Whether others may have lost this one: not one that is done, nor an evaluator, which they never knew."""
    return not pod.succeeded and pod.role != "evaluator"


def _wait_within_limits(running: RunningGang, view: GangView, now: float) -> Decision:
    limits = [_limit_now(running, view), *_limits_of_task(running)]
    for limit in limits:
        if limit is not None and now >= limit.ends_at:
            return Abort(why=f"{limit.name} passed: {describe(view)}", kind=limit.kind)
    moments = [limit.ends_at for limit in limits if limit is not None]
    moments += [at for pod in view.pods.values() if (at := overdue_at(pod)) is not None]
    return KeepWaiting(within_s=min((moment - now for moment in moments), default=None))


def _limit_now(running: RunningGang, view: GangView) -> _Limit | None:
    """The limit on what the gang does now: wait in a queue, start, or run."""
    timeouts = running.timeouts
    if view.queued:
        return _Limit(running.launched_at + timeouts.queue_s, f"the queue timeout of {timeouts.queue_s:g} s")
    if not view.all_started:
        name = f"the startup timeout of {timeouts.startup_s:g} s"
        return _Limit(view.startup_from + timeouts.startup_s, name, FailureClass.INFRA)
    if timeouts.run_s is None:
        return None
    started_at = max(pod.started_at or running.launched_at for pod in view.pods.values())
    return _Limit(started_at + timeouts.run_s, f"the run timeout of {timeouts.run_s:g} s")


def _limits_of_task(running: RunningGang) -> list[_Limit]:
    return [] if running.deadline is None else [_Limit(running.deadline, "the task's execution_timeout")]


def _state(pod: PodSnapshot) -> str:
    if pod.queued:
        return f"waits in the queue{f': {pod.unscheduled}' if pod.unscheduled else ''}"
    if pod.unscheduled:
        return f"cannot be scheduled: {pod.unscheduled}"
    if pod.waiting_reason:
        return f"waits for its container: {pod.waiting_reason} {pod.waiting_message}".rstrip()
    return f"is {pod.phase}"
