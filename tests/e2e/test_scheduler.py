"""Airflow's own scheduler and triggerer: the example DAG by its schedule and through the REST API, and what the sweep
finds where neither of the two told anybody that a task is over."""

from __future__ import annotations

import os
import signal

import pytest

from lockstep.local.airflow_api import FINISHED, AirflowApi
from lockstep.local.airflow_service import RUN_ROOT
from lockstep.local.run_start import known_dag
from lockstep.local.stack import Stack
from lockstep.names import GangId
from lockstep.run_directory import RunDirectory, run_url
from lockstep.training_spec import Timeouts
from tests.e2e.airflow_stack import (
    RUN_TIMEOUT_S,
    await_end,
    mark,
    pods_of,
    services_of,
    standing_still,
    states_of,
)
from tests.e2e.gang_processes import workers
from tests.e2e.waiting import awaited

DAG = "train_digits"
SWEEP = "lockstep_sweep"


@pytest.fixture
def stack(airflow_stack: Stack) -> Stack:
    return airflow_stack


def test_the_daily_run_starts_by_itself_and_a_person_can_end_its_training(stack: Stack, api: AirflowApi) -> None:
    """No one triggers it; and marking the deferred task as failed takes its pods away."""
    dag = known_dag(api, DAG)
    assert dag.paused
    date = dag.next_logical_date
    assert date is not None

    api.set_paused(DAG, False)
    run_id = awaited(lambda: api.scheduled_run(DAG, date), what="the scheduler's own run", timeout_s=60)
    await_training(stack, api, run_id, count=2)
    awaited(lambda: watched(stack, run_id), what="the triggerer to watch the gang", timeout_s=60)
    mark(api, DAG, run_id, "train", "failed")

    # A worker that does not hear SIGTERM, being inside TensorFlow's constructor, has its whole grace period.
    patience_s = Timeouts().grace_s + 15
    awaited(lambda: not pods_of(stack), what="the end of the gang's pods", timeout_s=patience_s)
    assert not workers(stack.layout.state)
    await_end(api, DAG, run_id)
    states = states_of(api, DAG, run_id)
    assert (states["train"], states["validate"], states["register"]) == ("failed", "upstream_failed", "upstream_failed")


def test_a_triggered_run_holds_no_worker_slot_outlives_a_killed_worker_and_registers_its_model(
    stack: Stack, api: AirflowApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three workers, as asked in the Trigger form: no multiple of the files, so each reads all and keeps its share.

    The whole gang starts anew and goes on from its backup, in the same try of the same run.
    """
    for name, value in stack.environment().items():
        monkeypatch.setenv(name, value)
    known_dag(api, DAG)
    api.set_paused(DAG, False)
    run_id = api.trigger(DAG, {"workers": 3, "epochs": 16, "min_accuracy": 0.3, "model_name": "scheduled"}, None)
    directory = RunDirectory.at(run_url(RUN_ROOT, GangId(dag_id=DAG, run_id=run_id, task_id="train")))

    def backed_up() -> bool:
        return directory.backup_step() is not None and len(workers(stack.layout.state)) == 3

    await_training(stack, api, run_id, count=3)
    awaited(backed_up, what="the first backup", timeout_s=RUN_TIMEOUT_S)
    workers(stack.layout.state)[1].kill()

    await_end(api, DAG, run_id)
    assert set(states_of(api, DAG, run_id).values()) == {"success"}, why(api, run_id)
    assert {task.try_number for task in api.tasks(DAG, run_id)} == {1}
    trained, registered = (api.returned(DAG, run_id, task) for task in ("train", "register"))
    assert (trained["workers"], trained["replicas"], trained["sharding"]["policy"]) == (3, 3, "DATA")
    assert trained["attempt"] == 2
    assert trained["resumed_from_step"] > 0
    assert (registered["name"], registered["version"]) == ("scheduled", 1)


def test_the_sweep_removes_a_gang_whose_task_a_person_ended_unwatched_and_no_other(
    stack: Stack, api: AirflowApi, no_sweep: None
) -> None:
    """While the triggerer stands still nobody is told; the gang beside it goes on, and succeeds when it may."""
    known_dag(api, "long_gangs")
    with standing_still(stack, "triggerer"):
        run_id = api.trigger("long_gangs", {}, None)
        ended, healthy = (GangId(dag_id="long_gangs", run_id=run_id, task_id=task) for task in ("ended", "healthy"))
        deferred = dict.fromkeys(("ended", "healthy"), "deferred")
        awaited(lambda: states_of(api, "long_gangs", run_id) == deferred, what="both gangs' launch", timeout_s=120)
        for gang in (ended, healthy):
            await_running(stack, gang, count=2)
        before = {gang: pods_of(stack, gang) for gang in (ended, healthy)}
        mark(api, "long_gangs", run_id, "ended", "failed")
        assert states_of(api, "long_gangs", run_id) == {"ended": "failed", "healthy": "deferred"}

        assert {gang: pods_of(stack, gang) for gang in before} == before  # the gap that the sweep is for
        run_sweep(api)

        assert (pods_of(stack, ended), pods_of(stack, healthy)) == ({}, before[healthy])
        assert services_of(stack) == [healthy.name]
    (stack.layout.airflow_home / "long_gangs_may_end").touch()
    await_end(api, "long_gangs", run_id)
    assert states_of(api, "long_gangs", run_id) == {"ended": "failed", "healthy": "success"}


def test_the_sweep_removes_what_a_task_left_that_was_killed_between_two_pods(
    stack: Stack, api: AirflowApi, no_sweep: None
) -> None:
    """SIGKILL to the task's process, with no retry left."""
    known_dag(api, "held_gang")
    (stack.layout.airflow_home / "long_gangs_may_end").unlink(missing_ok=True)
    run_id = api.trigger("held_gang", {}, None)
    gang = GangId(dag_id="held_gang", run_id=run_id, task_id="held")
    await_running(stack, gang, count=1)
    os.kill(int((stack.layout.airflow_home / "launching.pid").read_text()), signal.SIGKILL)
    await_end(api, "held_gang", run_id)
    assert states_of(api, "held_gang", run_id) == {"held": "failed"}
    assert len(pods_of(stack, gang)) == 1

    run_sweep(api)

    assert (pods_of(stack, gang), services_of(stack), workers(stack.layout.state)) == ({}, [], {})


@pytest.fixture
def no_sweep(api: AirflowApi) -> None:
    """None by itself, until the test asks for one."""
    known_dag(api, SWEEP)
    api.set_paused(SWEEP, True)


def run_sweep(api: AirflowApi) -> None:
    run_id = api.trigger(SWEEP, {}, None)
    api.set_paused(SWEEP, False)
    await_end(api, SWEEP, run_id)
    assert api.run_state(SWEEP, run_id) == "success"


def watched(stack: Stack, run_id: str) -> bool:
    """Whether the trigger runs: until then Airflow tells nobody that a person has ended the task."""
    logs = (stack.layout.airflow_home / "logs").glob(f"dag_id={DAG}/run_id={run_id}/task_id=train/*.trigger.*")
    return any("[chief] " in log.read_text() for log in logs)


def await_training(stack: Stack, api: AirflowApi, run_id: str, count: int) -> None:
    """Wait until all workers run, and find their task deferred while they do."""

    def deferred_while_training() -> bool:
        return len(workers(stack.layout.state)) == count and states_of(api, DAG, run_id)["train"] == "deferred"

    def hopeless() -> str | None:
        return why(api, run_id) if api.run_state(DAG, run_id) in FINISHED else None

    awaited(deferred_while_training, what="deferred training", timeout_s=RUN_TIMEOUT_S, hopeless=hopeless)


def await_running(stack: Stack, gang: GangId, count: int) -> None:
    awaited(lambda: [*pods_of(stack, gang).values()] == ["Running"] * count, what=f"the pods of {gang}", timeout_s=120)


def why(api: AirflowApi, run_id: str) -> str:
    """What the failed tasks of a run died of."""
    failed = [task for task in api.tasks(DAG, run_id) if task.state == "failed"]
    return "; ".join(f"{task.task_id}: {api.error_of(DAG, run_id, task)}" for task in failed)
