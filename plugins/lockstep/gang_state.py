"""decide(): plan + what was seen + how long it took -> Decision. Pure; every wait it allows has an end.

The gang lives and dies as one: it has finished when every worker has, and failed when one has.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lockstep.failure import WorkerFailure, culprit, failure_of, first, vanished
from lockstep.pod_plan import GangPlan
from lockstep.pod_snapshot import PodSnapshot

BLAME_WINDOW_S = 10.0
"""How long to wait for a culprit where only peers have said so far that they lost one: the longest delay between the
end of a worker and its peers' errors that was measured (FIELD-NOTES: 9-10 s by heartbeat)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GangView:
    """What was seen of one attempt: the latest snapshot of each rank, and the ranks whose pod is gone."""

    pods: Mapping[int, PodSnapshot]
    gone: frozenset[int] = field(default_factory=frozenset)


@dataclass(frozen=True, kw_only=True, slots=True)
class Waited:
    """Seconds since the launch, and since the first failure was seen (None while there is none)."""

    launch_s: float
    failure_s: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class KeepWaiting:
    """Nothing to do before the next event, or before `within_s` seconds have passed (None: no limit)."""

    within_s: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Finish:
    """Every worker's container returned 0; `uids` (by rank) are the pods that proved it."""

    uids: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Fail:
    """A worker died: `cause` is to be blamed, `others` died of it or are deleted now."""

    cause: WorkerFailure
    failures: tuple[WorkerFailure, ...]
    others: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Abort:
    """A time limit passed: `why` names the limit, and what each worker was waiting for."""

    why: str


Decision = KeepWaiting | Finish | Fail | Abort


def decide(plan: GangPlan, view: GangView, waited: Waited) -> Decision:
    """What the gang's state asks for. Total: any view and any duration has exactly one answer."""
    failures = gang_failures(view)
    if (cause := culprit(failures)) is not None:
        return Fail(cause=cause, failures=failures, others=plan.spec.workers - 1)
    if (collateral := first(failures)) is not None:
        return _wait_for_culprit(plan, collateral, failures, waited)
    if _all_succeeded(plan, view):
        return Finish(uids=tuple(view.pods[rank].uid for rank in range(plan.spec.workers)))
    return _wait_within_limits(plan, view, waited)


def gang_failures(view: GangView) -> tuple[WorkerFailure, ...]:
    """Every failure that the view shows; a pod that is gone has failed unless it was seen to succeed."""
    dead = [
        failure_of(pod) or (vanished(pod) if rank in view.gone and not pod.succeeded else None)
        for rank, pod in sorted(view.pods.items())
    ]
    return tuple(failure for failure in dead if failure is not None)


def _all_succeeded(plan: GangPlan, view: GangView) -> bool:
    return all(rank in view.pods and view.pods[rank].succeeded for rank in range(plan.spec.workers))


def _wait_for_culprit(
    plan: GangPlan, collateral: WorkerFailure, failures: tuple[WorkerFailure, ...], waited: Waited
) -> Decision:
    left_s = BLAME_WINDOW_S - (waited.failure_s or 0.0)
    if left_s > 0 and len(failures) < plan.spec.workers:
        return KeepWaiting(within_s=left_s)
    return Fail(cause=collateral, failures=failures, others=plan.spec.workers - 1)


def _wait_within_limits(plan: GangPlan, view: GangView, waited: Waited) -> Decision:
    limits = _limits(plan, view)
    for limit_s, name in limits:
        if waited.launch_s >= limit_s:
            return Abort(why=f"{name} of {limit_s:g} s passed: {describe(plan, view)}")
    return KeepWaiting(within_s=min((limit_s - waited.launch_s for limit_s, _ in limits), default=None))


def _limits(plan: GangPlan, view: GangView) -> list[tuple[float, str]]:
    all_started = all(rank in view.pods and view.pods[rank].started for rank in range(plan.spec.workers))
    limits = [] if all_started else [(plan.spec.startup_timeout_s, "the start-up timeout (startup_timeout_s)")]
    if plan.spec.run_timeout_s is not None:
        limits.append((plan.spec.run_timeout_s, "the run timeout (run_timeout_s)"))
    return limits


def describe(plan: GangPlan, view: GangView) -> str:
    """One clause a worker: what it does, or what it waits for."""
    return "; ".join(f"worker {rank} {_state(view.pods.get(rank))}" for rank in range(plan.spec.workers))


def _state(pod: PodSnapshot | None) -> str:
    if pod is None:
        return "has no pod"
    if pod.unscheduled:
        return f"cannot be scheduled: {pod.unscheduled}"
    if pod.waiting_reason:
        return f"waits for its container: {pod.waiting_reason} {pod.waiting_message}".rstrip()
    return f"is {pod.phase}"
