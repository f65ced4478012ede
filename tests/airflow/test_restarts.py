"""A gang that ended is started anew, whole, by the task: deferred or not, within its budgets, and told in its log."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pydoc import locate
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException, TaskDeferred

from lockstep.cloud_storage import CloudStorage
from lockstep.connected_gang import ConnectedGang
from lockstep.errors import InvalidSpec, NotPermitted, StorageUnavailable
from lockstep.failed_attempt import FailedAttempt
from lockstep.failure_class import FailureClass
from lockstep.operators.gang import GangOperator
from lockstep.operators.train import DistributedTrainingOperator
from lockstep.parsing import to_json
from lockstep.training_spec import TrainingSpec
from tests.unit.builders import GANG, running_gang, spec
from tests.unit.memory_cluster import MemoryCluster

KILLED = {"phase": "Failed", "started": True, "exit_code": 137}
EVICTED = {"phase": "Failed", "started": True, "exit_code": 143, "disruption": "EvictionByEvictionAPI"}
BROKEN = {"phase": "Failed", "started": True, "exit_code": 1}
DONE = {"phase": "Succeeded", "started": True, "exit_code": 0}


class SmallGang(GangOperator):
    """A gang of two that returns "done"."""

    def spec(self, context: Any) -> TrainingSpec:
        return spec()

    def conclude(self, context: Any) -> str:
        return "done"


class Story:
    """The cluster in memory, where attempt after attempt fares as told: (rank, status) for each."""

    def __init__(self, *fates: tuple[int, dict[str, Any]]) -> None:
        self.cluster, self.fates = MemoryCluster(), list(fates)
        self.launched: list[list[str]] = []

    @asynccontextmanager
    async def connected(self, **_: float) -> AsyncIterator[MemoryCluster]:
        yield self.cluster

    async def unfold(self, *_: Any) -> None:
        """What the pods do once they are all there; the fate of one decides, without any the others are done."""
        self.launched.append(sorted(self.cluster.living))
        rank, status = self.fates.pop(0) if self.fates else (0, DONE)
        self.cluster.change(rank, **status)
        if status is DONE:
            self.cluster.change(1, **DONE)


@pytest.fixture
def task(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[SmallGang, Story]]:
    def make(*fates: tuple[int, dict[str, Any]], **arguments: Any) -> tuple[SmallGang, Story]:
        story = Story(*fates)
        restarts = {"backoff_s": 0} | arguments.pop("restarts", {})
        operator = SmallGang(task_id="train", restarts=restarts, **arguments)
        launch = ConnectedGang.launch

        async def launch_and_unfold(*given: Any, **more: Any) -> Any:
            running = await launch(*given, **more)
            await story.unfold()
            return running

        monkeypatch.setattr(ConnectedGang, "_cluster", story.connected)
        monkeypatch.setattr(ConnectedGang, "launch", launch_and_unfold)
        return operator, story

    return make


def context() -> Any:
    started = datetime.now(UTC)
    ti = SimpleNamespace(
        dag_id=GANG.dag_id,
        run_id=GANG.run_id,
        task_id=GANG.task_id,
        map_index=None,
        start_date=started,
        try_number=1,
        max_tries=0,
    )
    return {"ti": ti}


def run(operator: SmallGang) -> Any:
    """As Airflow does: from deferral to deferral, each told by the trigger it names."""
    step: Callable[[], Any] = lambda: operator.run_gang(operator.plan(context()), context())  # noqa: E731
    while True:
        try:
            return step()
        except TaskDeferred as deferred:
            event = asyncio.run(_fired(deferred.trigger))
            method = getattr(operator, deferred.method_name)
            # Arguments of a deferral do not come back in `dag.test()`: only what the trigger fires does.
            step = lambda method=method, event=event: method(context(), event)  # noqa: E731


async def _fired(trigger: Any) -> Any:
    classpath, arguments = trigger.serialize()
    (event,) = [event async for event in locate(classpath)(**arguments).run()]  # type: ignore[operator]
    return event.payload


@pytest.fixture(params=[pytest.param(True, id="deferred"), pytest.param(False, id="not deferred")])
def deferrable(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def test_an_evicted_gang_is_started_anew_under_the_next_attempt(task: Any, deferrable: bool) -> None:
    operator, story = task((1, EVICTED), (0, EVICTED), deferrable=deferrable)
    assert run(operator) == "done"
    gang = GANG.name
    assert story.launched == [[f"{gang}-{attempt}-w0", f"{gang}-{attempt}-w1"] for attempt in (1, 2, 3)]
    assert not story.cluster.living
    assert story.cluster.service is None


def test_what_keeps_happening_is_given_up_and_says_so(task: Any, deferrable: bool) -> None:
    operator, story = task(*[(1, EVICTED)] * 3, deferrable=deferrable, restarts={"max_infra_restarts": 2})
    with pytest.raises(AirflowException, match=r"^worker 1 .*EvictionByEvictionAPI.*; given up after restart 2$"):
        run(operator)
    assert len(story.launched) == 3
    assert not story.cluster.living


def test_a_worker_that_was_killed_without_a_word_is_worth_one_restart(task: Any, deferrable: bool) -> None:
    operator, story = task((1, KILLED), (1, KILLED), deferrable=deferrable)
    with pytest.raises(AirflowException, match=r"killed \(SIGKILL\).*given up after restart 1$"):
        run(operator)
    assert len(story.launched) == 2


def test_a_bug_fails_the_task_for_good_at_once(task: Any, deferrable: bool) -> None:
    operator, story = task((0, BROKEN), deferrable=deferrable)
    with pytest.raises(AirflowFailException, match=r"^worker 0 .*exit code 1"):
        run(operator)
    assert len(story.launched) == 1


def test_each_restart_is_told_with_its_reason(task: Any, capsys: pytest.CaptureFixture[str]) -> None:
    operator, _ = task((1, EVICTED), deferrable=False)
    run(operator)
    told = capsys.readouterr().out
    assert "Attempt 1 has failed (infra): worker 1 " in told
    assert "Restart 1 in 0 s; it begins anew" in told


def test_no_restart_begins_after_the_execution_timeout(task: Any) -> None:
    operator, story = task(
        (1, EVICTED), deferrable=True, restarts={"backoff_s": 90}, execution_timeout=timedelta(seconds=60)
    )
    with pytest.raises(AirflowException, match="EvictionByEvictionAPI"):
        run(operator)
    assert len(story.launched) == 1


def test_no_restart_begins_after_the_execution_timeout_has_passed_in_the_pause(task: Any) -> None:
    operator, story = task(deferrable=True)
    before = running_gang(deadline=time.time() - 1)
    with pytest.raises(AirflowException, match="execution_timeout passed before restart 1 could begin"):
        operator.relaunch(context(), {"running": to_json(before), "restarts": {"infra": 1}})
    assert not story.cluster.requests


def test_a_gang_that_the_triggerer_cannot_reach_is_ended_by_its_task(
    task: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    operator, story = task((1, {"phase": "Running", "started": True}), deferrable=True)
    monkeypatch.setattr(ConnectedGang, "supervise", _not_connected)
    with pytest.raises(AirflowFailException, match="no such connection"):
        run(operator)
    assert story.launched
    assert not story.cluster.living


async def _not_connected(*_: Any) -> None:
    raise InvalidSpec("no such connection")


@pytest.mark.parametrize("refusal", [NotPermitted("no right to create"), StorageUnavailable("no answer")])
def test_storage_that_takes_no_record_is_no_reason_to_lose_a_training(
    refusal: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise refusal

    for request in ("read", "contents", "create"):
        monkeypatch.setattr(CloudStorage, request, refuse)
    operator = DistributedTrainingOperator(task_id="train", training={}, run_directory="gs://bucket/run")
    failed = FailedAttempt(error="worker 1 was evicted", retryable=True, kind=FailureClass.INFRA)
    assert operator.attempt_failed(context(), running_gang(), failed) == "it goes on from the newest backup"


def test_a_wrong_policy_is_refused_before_anything_is_created(task: Any) -> None:
    operator, story = task(restarts={"max_restarts": 3})
    with pytest.raises(AirflowFailException, match=r"train.restarts: unknown parameter 'max_restarts'"):
        run(operator)
    assert not story.cluster.requests
