"""The example DAG, run by Airflow's own scheduler and triggerer: started by its schedule, and through the REST API."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from kubernetes.client import CoreV1Api
from kubernetes.config import new_client_from_config

from lockstep.local import service_process
from lockstep.local.airflow_api import FINISHED, AirflowApi, accepted, run_path
from lockstep.local.run_start import known_dag
from lockstep.local.stack import Stack
from lockstep.stack_guard import guarded
from lockstep.training_spec import Timeouts
from tests.e2e.gang_processes import workers
from tests.e2e.waiting import awaited

DAG = "train_digits"
RUN_TIMEOUT_S = 600


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    """A whole stack with a state of its own; after it, no process is left."""
    folder = Path(tempfile.mkdtemp(prefix="lockstep-scheduler-")).resolve()
    stack = Stack(folder, report=print)
    with guarded(stack):
        stack.up()
        yield stack
    assert list(service_process.marked(folder)) == []
    shutil.rmtree(folder)


@pytest.fixture
def api(stack: Stack) -> Iterator[AirflowApi]:
    with AirflowApi(stack.airflow_url) as api:
        yield api


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
    accepted(api._client.patch(f"{run_path(DAG, run_id)}/taskInstances/train", json={"new_state": "failed"}))

    # A worker that does not hear SIGTERM, being inside TensorFlow's constructor, has its whole grace period.
    patience_s = Timeouts().grace_s + 15
    awaited(lambda: not pods_of(stack), what="the end of the gang's pods", timeout_s=patience_s)
    assert not workers(stack.layout.state)
    await_end(api, run_id)
    states = states_of(api, run_id)
    assert (states["train"], states["validate"], states["register"]) == ("failed", "upstream_failed", "upstream_failed")


def test_a_triggered_run_holds_no_worker_slot_while_it_trains_and_registers_its_model(
    stack: Stack, api: AirflowApi
) -> None:
    """Three workers, as asked in the Trigger form: no multiple of the files, so each reads all and keeps its share."""
    known_dag(api, DAG)
    api.set_paused(DAG, False)
    run_id = api.trigger(DAG, {"workers": 3, "epochs": 2, "min_accuracy": 0.3, "model_name": "scheduled"}, None)

    await_training(stack, api, run_id, count=3)

    await_end(api, run_id)
    assert set(states_of(api, run_id).values()) == {"success"}, why(api, run_id)
    trained, registered = (api.returned(DAG, run_id, task) for task in ("train", "register"))
    assert (trained["workers"], trained["replicas"], trained["sharding"]["policy"]) == (3, 3, "DATA")
    assert (registered["name"], registered["version"]) == ("scheduled", 1)


def watched(stack: Stack, run_id: str) -> bool:
    """Whether the trigger runs: until then Airflow tells nobody that a person has ended the task."""
    logs = (stack.layout.airflow_home / "logs").glob(f"dag_id={DAG}/run_id={run_id}/task_id=train/*.trigger.*")
    return any("[chief] " in log.read_text() for log in logs)


def pods_of(stack: Stack) -> list[str]:
    with new_client_from_config(str(stack.layout.kubeconfig)) as client:
        return [pod.metadata.name for pod in CoreV1Api(client).list_namespaced_pod("default").items]


def await_training(stack: Stack, api: AirflowApi, run_id: str, count: int) -> None:
    """Wait until all workers run, and find their task deferred while they do."""

    def deferred_while_training() -> bool:
        return len(workers(stack.layout.state)) == count and states_of(api, run_id)["train"] == "deferred"

    def hopeless() -> str | None:
        return why(api, run_id) if api.run_state(DAG, run_id) in FINISHED else None

    awaited(deferred_while_training, what="deferred training", timeout_s=RUN_TIMEOUT_S, hopeless=hopeless)


def await_end(api: AirflowApi, run_id: str) -> None:
    awaited(lambda: api.run_state(DAG, run_id) in FINISHED, what="the run's end", timeout_s=RUN_TIMEOUT_S)


def states_of(api: AirflowApi, run_id: str) -> dict[str, str | None]:
    return {task.task_id: task.state for task in api.tasks(DAG, run_id)}


def why(api: AirflowApi, run_id: str) -> str:
    """What the failed tasks of a run died of."""
    failed = [task for task in api.tasks(DAG, run_id) if task.state == "failed"]
    return "; ".join(f"{task.task_id}: {api.error_of(DAG, run_id, task)}" for task in failed)
