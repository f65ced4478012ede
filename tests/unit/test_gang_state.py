"""The gang lives and dies as one: every view of it asks for exactly one thing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from lockstep.failure import OVERDUE_S
from lockstep.failure_class import FailureClass
from lockstep.gang_state import (
    BLAME_WINDOW_S,
    Abort,
    Decision,
    Fail,
    Finish,
    KeepWaiting,
    decide,
    gang_failures,
)
from lockstep.gang_view import GangView, launched_view, observe
from lockstep.pod_event import PodEvent, PodGone, PodSeen, PodsListed
from lockstep.pod_snapshot import PodSnapshot
from lockstep.roles import ROLES, TRAIN, RoleName
from lockstep.running_gang import RunningGang
from lockstep.training_spec import Timeouts
from tests.unit.builders import LAUNCHED_AT, failed, pod, running, running_gang, succeeded, view

QUEUED = pod(1, queued=True, unscheduled="gated")


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        pytest.param(view(running(0), running(1)), KeepWaiting, id="all running: wait"),
        pytest.param(view(succeeded(0), running(1)), KeepWaiting, id="chief done, worker still running: wait"),
        pytest.param(view(succeeded(0), succeeded(1)), Finish, id="all returned 0: finish"),
        pytest.param(view(running(0), failed(1)), Fail, id="one dead worker ends the gang"),
        pytest.param(view(succeeded(0), failed(1)), Fail, id="a worker dead after the chief's success ends it too"),
        pytest.param(view(succeeded(0), pod(1, phase="Succeeded")), Fail, id="phase Succeeded proves nothing"),
        pytest.param(view(running(0), running(1), gone=(1,)), Fail, id="a pod that was there and is gone has failed"),
        pytest.param(
            view(succeeded(0), succeeded(1), gone=(0, 1)), Finish, id="success seen before the pod went counts"
        ),
        pytest.param(view(running(0), failed(1, exit_code=None)), Fail, id="failed without container statuses is over"),
        pytest.param(view(running(0), pod(1, waiting_reason="ErrImagePull")), Fail, id="an image that does not exist"),
        pytest.param(
            view(running(0), pod(1, waiting_reason="ContainerCreating")), KeepWaiting, id="being created: wait"
        ),
    ],
)
def test_decide(seen: GangView, expected: type) -> None:
    assert isinstance(decide(running_gang(), seen, now=LAUNCHED_AT + 1), expected)


def test_the_first_failure_that_is_no_collateral_is_blamed() -> None:
    """Peers of a dead worker often die, and are seen dead, before the one whose fault it was."""
    seen = view(
        failed(0, exit_code=69, finished_at=10.0),
        failed(1, exit_code=69, finished_at=11.0),
        failed(2, exit_code=1, finished_at=12.0),
    )
    decision = decide(running_gang(3), seen, now=LAUNCHED_AT)
    assert isinstance(decision, Fail)
    assert (decision.cause.rank, decision.others, len(decision.failures)) == (2, 2, 3)


def test_a_lost_peer_alone_waits_for_the_culprit_but_not_for_long() -> None:
    gang, seen = running_gang(), view(failed(0, exit_code=69), running(1))
    assert decide(gang, seen, now=LAUNCHED_AT, failed_at=LAUNCHED_AT) == KeepWaiting(within_s=BLAME_WINDOW_S)
    late = decide(gang, seen, now=LAUNCHED_AT + BLAME_WINDOW_S, failed_at=LAUNCHED_AT)
    assert isinstance(late, Fail)
    assert (late.cause.rank, len(late.failures)) == (1, 2)
    assert "its node may be lost" in str(late.cause)


def test_where_all_have_lost_a_peer_the_first_of_them_is_named() -> None:
    seen = view(failed(0, exit_code=69, finished_at=9.0), failed(1, exit_code=69, finished_at=8.0))
    decision = decide(running_gang(), seen, now=LAUNCHED_AT, failed_at=LAUNCHED_AT)
    assert isinstance(decision, Fail)
    assert (decision.cause.rank, decision.cause.kind) == (1, FailureClass.COLLATERAL)


def test_a_pod_that_does_not_end_when_its_grace_has_is_given_up() -> None:
    """Pods of a lost node stay as they were last seen; that they are to be deleted is all that changes."""
    doomed = replace(running(1), deletion_due=LAUNCHED_AT + 30, disruption="DeletionByTaintManager")
    gang, seen = running_gang(), view(running(0), doomed)
    assert decide(gang, seen, now=LAUNCHED_AT) == KeepWaiting(within_s=30 + OVERDUE_S)
    decision = decide(gang, seen, now=LAUNCHED_AT + 30 + OVERDUE_S)
    assert isinstance(decision, Fail)
    assert str(decision.cause).startswith("worker 1 (w1, infra): DeletionByTaintManager: its pod was to end")


def test_the_cause_is_told_in_one_line() -> None:
    message = json.dumps({"schema": 1, "kind": "user", "message": "ValueError: no", "step": 812, "phase": "step"})
    seen = view(running(0), failed(1, exit_code=1, node="node-b", message=message))
    decision = decide(running_gang(), seen, now=LAUNCHED_AT)
    assert isinstance(decision, Fail)
    told = "worker 1 on node-b (w1, user): exit code 1: ValueError: no (in phase step) at step 812"
    assert str(decision.cause) == told


@pytest.mark.parametrize(
    ("timeouts", "seen", "after_s", "named"),
    [
        pytest.param({"startup_s": 60}, view(running(0), pod(1)), 60, "startup timeout of 60 s", id="never started"),
        pytest.param({"run_s": 90}, view(running(0), running(1)), 90, "run timeout of 90 s", id="ran too long"),
        pytest.param(
            {"queue_s": 40, "startup_s": 5}, view(running(0), QUEUED), 40, "queue timeout of 40 s", id="never admitted"
        ),
    ],
)
def test_a_limit_that_passes_aborts_and_says_what_each_worker_waited_for(
    timeouts: dict[str, float], seen: GangView, after_s: float, named: str
) -> None:
    gang = running_gang(timeouts=timeouts)
    before = decide(gang, seen, now=LAUNCHED_AT + after_s - 1)
    assert before == KeepWaiting(within_s=1.0)
    passed = decide(gang, seen, now=LAUNCHED_AT + after_s)
    assert isinstance(passed, Abort)
    assert named in passed.why
    assert "worker 0 is Running; worker 1" in passed.why


def test_time_in_a_queue_is_no_start_up_time() -> None:
    """The start-up clock starts when the gates are lifted, whoever watches then."""
    gang = running_gang(timeouts={"startup_s": 60})
    queued = observe(launched_view(gang, now=LAUNCHED_AT), PodSeen(QUEUED), now=LAUNCHED_AT + 3_000)
    assert decide(gang, queued, now=LAUNCHED_AT + 3_000) == KeepWaiting(within_s=Timeouts().queue_s - 3_000)
    admitted = observe(queued, PodSeen(pod(1)), now=LAUNCHED_AT + 3_010)
    assert decide(gang, admitted, now=LAUNCHED_AT + 3_010) == KeepWaiting(within_s=50.0)
    late = decide(gang, admitted, now=LAUNCHED_AT + 3_060)
    assert isinstance(late, Abort)
    assert late.kind is FailureClass.INFRA


@pytest.mark.parametrize(("in_queue", "left_s"), [(False, 20.0), (True, 60.0)])
def test_a_triggerer_that_is_restarted_gives_no_more_time_to_start(in_queue: bool, left_s: float) -> None:
    """Unless a queue may have held the gang back meanwhile."""
    gang = running_gang(timeouts={"startup_s": 60}, in_queue=in_queue)
    later = LAUNCHED_AT + 40
    assert decide(gang, launched_view(gang, later), now=later) == KeepWaiting(within_s=left_s)


def test_the_startup_timeout_is_over_once_all_have_started() -> None:
    gang = running_gang(timeouts={"startup_s": 60})
    assert decide(gang, view(running(0), running(1)), now=LAUNCHED_AT + 3600) == KeepWaiting(within_s=None)


def test_the_execution_timeout_ends_a_deferred_gang() -> None:
    """Airflow does not enforce it while a task is deferred."""
    gang = running_gang(deadline=LAUNCHED_AT + 5)
    assert decide(gang, view(running(0), running(1)), now=LAUNCHED_AT) == KeepWaiting(within_s=5.0)
    assert isinstance(decide(gang, view(running(0), running(1)), now=LAUNCHED_AT + 5), Abort)


ANY_POD = st.builds(
    lambda phase, started, exit_code, waiting, disruption, deletion_due: {
        "phase": phase,
        "started": started,
        "exit_code": exit_code,
        "waiting_reason": waiting,
        "disruption": disruption,
        "deletion_due": deletion_due,
    },
    st.sampled_from(["Pending", "Running", "Succeeded", "Failed", "Unknown"]),
    st.booleans(),
    st.sampled_from([None, 0, 1, 42, 64, 69, 75, 137, 143, 255]),
    st.sampled_from(["", "ContainerCreating", "ErrImagePull"]),
    st.sampled_from(["", "EvictionByEvictionAPI"]),
    st.sampled_from([None, LAUNCHED_AT + 30]),
)


@given(pods=st.lists(ANY_POD, min_size=1, max_size=4), gone=st.sets(st.integers(0, 3)), after_s=st.floats(0, 1e6))
def test_success_needs_proof_from_every_worker_and_no_wait_is_endless(
    pods: list[dict[str, object]], gone: set[int], after_s: float
) -> None:
    ranks = range(len(pods))
    seen = view(*(pod(rank, **status) for rank, status in enumerate(pods)), gone=tuple(gone & set(ranks)))
    gang = running_gang(len(pods), timeouts={"run_s": 1e5})
    decision = decide(gang, seen, now=LAUNCHED_AT + after_s, failed_at=LAUNCHED_AT)
    proven = all(status["phase"] == "Succeeded" and status["exit_code"] == 0 for status in pods)
    if isinstance(decision, Finish):
        assert proven
    if isinstance(decision, KeepWaiting):
        assert decision.within_s is not None
        assert decision.within_s > 0


SERVED = ("chief", "worker", "ps", "evaluator")


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        pytest.param([succeeded(0), succeeded(1), running(2), running(3)], Finish, id="chief and workers done: finish"),
        pytest.param(
            [succeeded(0), running(1), running(2), running(3)], KeepWaiting, id="the chief alone is done: wait"
        ),
        pytest.param([running(0), succeeded(1), running(2), running(3)], KeepWaiting, id="the chief still runs: wait"),
        pytest.param([running(0), running(1), failed(2), running(3)], Fail, id="a dead parameter server ends the gang"),
        pytest.param([running(0), running(1), running(2), failed(3)], Fail, id="a dead evaluator ends the gang"),
        pytest.param([running(0), running(1), running(2), succeeded(3)], KeepWaiting, id="an evaluator may end: wait"),
        pytest.param(
            [succeeded(0), succeeded(1), failed(2), failed(3)], Finish, id="what dies once all is done does not count"
        ),
        pytest.param(
            [running(0), running(1), succeeded(2), succeeded(3)], KeepWaiting, id="helpers prove nothing: wait"
        ),
    ],
)
def test_who_trains_decides_over_success_and_whoever_dies_ends_the_gang(
    seen: list[PodSnapshot], expected: type
) -> None:
    decision = decide(running_gang(4, roles=SERVED), view(*seen), now=LAUNCHED_AT + 1)
    assert isinstance(decision, expected)
    if isinstance(decision, Finish):
        assert decision.uids == ("uid-0", "uid-1")


def test_success_outlives_the_pods_that_served_it() -> None:
    """They are ended before the task knows; whoever watches next finds them gone."""
    seen = view(succeeded(0), succeeded(1), running(2), running(3), gone=(2, 3))
    assert isinstance(decide(running_gang(4, roles=SERVED), seen, now=LAUNCHED_AT), Finish)


@pytest.mark.parametrize(("rank", "title"), [(0, "chief 0"), (1, "worker 0"), (2, "ps 0"), (3, "evaluator 0")])
def test_the_dead_are_named_by_role_and_index_seen_or_not(rank: int, title: str) -> None:
    gang = running_gang(4, roles=SERVED)
    unseen = launched_view(gang, LAUNCHED_AT)
    decision = decide(gang, replace(unseen, gone=frozenset({rank})), now=LAUNCHED_AT)
    assert isinstance(decision, Fail)
    assert str(decision.cause).startswith(f"{title} (")


def test_an_evaluator_is_nobody_s_lost_peer() -> None:
    """No other task knows its address, so whoever has lost a peer means somebody else."""
    gang, lost = running_gang(4, roles=SERVED), {"exit_code": 69, "finished_at": 9.0}
    seen = view(*(failed(rank, **lost) for rank in range(3)), replace(running(3), role="evaluator"))
    decision = decide(gang, seen, now=LAUNCHED_AT, failed_at=LAUNCHED_AT)
    assert isinstance(decision, Fail)
    assert (decision.cause.rank, decision.cause.kind) == (0, FailureClass.COLLATERAL)


@given(
    members=st.lists(st.tuples(st.sampled_from(ROLES), ANY_POD), min_size=1, max_size=4),
    gone=st.sets(st.integers(0, 3)),
    after_s=st.floats(0, 1e6),
)
def test_with_roles_success_needs_proof_from_all_that_train_and_a_failure_is_never_waited_out(
    members: list[tuple[RoleName, dict[str, object]]], gone: set[int], after_s: float
) -> None:
    roles = tuple(role for role, _ in members)
    assume(set(roles) & set(TRAIN))
    pods = [pod(rank, role=role, **status) for rank, (role, status) in enumerate(members)]
    gang = running_gang(len(pods), roles=roles, timeouts={"run_s": 1e5})
    decision = decide(
        gang, view(*pods, gone=tuple(gone & set(range(len(pods))))), now=LAUNCHED_AT + after_s, failed_at=LAUNCHED_AT
    )
    trained = all(each.succeeded for each in pods if each.role in TRAIN)
    assert isinstance(decision, Finish) == trained
    if any(each.failed for each in pods) and not trained and after_s > BLAME_WINDOW_S:
        assert isinstance(decision, Fail)
    if isinstance(decision, KeepWaiting):
        assert decision.within_s is not None


FOREIGN = "another"
UIDS_OF = st.sampled_from(["ours", FOREIGN])
EVENT = st.one_of(
    st.tuples(st.just(PodSeen), st.integers(0, 3), UIDS_OF, ANY_POD),
    st.tuples(st.just(PodGone), st.integers(0, 3), UIDS_OF, ANY_POD),
    st.tuples(st.just(PodsListed), st.sets(st.integers(0, 3)), UIDS_OF, ANY_POD),
)
LIMITS = {"queue_s": 500.0, "startup_s": 100.0, "run_s": 1_000.0}
MOST_WAITS = 10
"""What is left to wait for when nothing happens any more: a culprit, a pod's end, and one limit after the other."""


def event_of(drawn: tuple[Any, ...], gang: RunningGang) -> PodEvent:
    kind, where, whose, status = drawn
    ranks = {rank % gang.workers for rank in (where if kind is PodsListed else [where])}
    roles = gang.roles or ["worker"] * gang.workers
    whole = {"uid": FOREIGN} if whose == FOREIGN else {}
    pods = tuple(pod(rank, role=roles[rank], **status | whole) for rank in sorted(ranks))
    return PodsListed(pods) if kind is PodsListed else kind(pods[0])


class Watch:
    """A gang watched as the supervisor does it, over time that passes as the test says."""

    def __init__(self, gang: RunningGang) -> None:
        self.gang, self.now = gang, LAUNCHED_AT
        self.view, self.failed_at, self.proofs = launched_view(gang, self.now), None, set[str]()

    def decision(self) -> Decision:
        if self.failed_at is None and gang_failures(self.view, self.now):
            self.failed_at = self.now
        return decide(self.gang, self.view, now=self.now, failed_at=self.failed_at)

    def take_in(self, event: PodEvent, after_s: float) -> None:
        self.now += after_s
        self.view = observe(self.view, event, self.now)
        seen = event.pods if isinstance(event, PodsListed) else (event.pod,)
        self.proofs |= {each.uid for each in seen if each.phase == "Succeeded" and each.exit_code == 0}

    def follow(self, events: Sequence[tuple[PodEvent, float]]) -> Decision:
        """To the end that the gang comes to, on its own when no event is left."""
        for event, after_s in events:
            decision = self.decision()
            if not isinstance(decision, KeepWaiting):
                return decision
            self.take_in(event, after_s if decision.within_s is None else min(after_s, decision.within_s))
        for _ in range(MOST_WAITS):
            decision = self.decision()
            if not isinstance(decision, KeepWaiting):
                return decision
            assert decision.within_s is not None
            assert decision.within_s > 0
            self.now += decision.within_s
        raise AssertionError(f"still waiting at {self.now}: {self.view}")


@given(
    roles=st.sampled_from([(), SERVED]),
    drawn=st.lists(st.tuples(EVENT, st.floats(0, 300)), max_size=12),
    deadline=st.sampled_from([None, LAUNCHED_AT + 400]),
)
def test_over_any_course_of_events_there_is_an_end_and_success_only_by_proof_of_this_attempt(
    roles: tuple[RoleName, ...], drawn: list[tuple[tuple[Any, ...], float]], deadline: float | None
) -> None:
    gang = running_gang(len(roles) or 3, roles=roles, timeouts=LIMITS, deadline=deadline)
    watch = Watch(gang)
    end = watch.follow([(event_of(event, gang), after_s) for event, after_s in drawn])
    required = {gang.uids[rank] for rank in gang.required}
    if isinstance(end, Finish):
        assert set(end.uids) == required
        assert required <= watch.proofs
    if isinstance(end, Fail):
        assert 0 <= end.cause.rank < gang.workers


@given(drawn=st.lists(st.tuples(EVENT, st.floats(0, 300)), max_size=12))
def test_what_happens_to_pods_of_others_changes_nothing(drawn: list[tuple[tuple[Any, ...], float]]) -> None:
    """Of other attempts, or of the same name under another UID; only a full list tells that ours is not among them."""
    gang = running_gang(3, timeouts=LIMITS)
    seen = launched_view(gang, LAUNCHED_AT)
    for (kind, where, _, status), _after_s in drawn:
        if kind is not PodsListed:
            assert observe(seen, event_of((kind, where, FOREIGN, status), gang), LAUNCHED_AT) == seen
