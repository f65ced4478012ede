"""The example DAG, whole, on the one-machine stack: what it leaves when all is well, and when something is not."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from lockstep.cloud_storage import CloudStorage
from lockstep.dag_check import load_dag
from lockstep.finished_run import FinishedRun, run_to_the_end
from lockstep.gs_url import GsUrl
from lockstep.local.airflow_service import RUN_ROOT
from lockstep.local.stack import Stack
from lockstep.names import GangId
from lockstep.pytest_plugin import LoadDag, RunDag
from lockstep.run_directory import PROGRESS, RunDirectory, run_url
from tests.e2e.conftest import Versions
from tests.e2e.gang_processes import Killer, workers

FILE = Path(__file__).parents[2] / "dags" / "train_digits.py"
DATE = datetime(2026, 11, 30, tzinfo=UTC)
BEFORE_TRAINING = "preflight|prepare_shards|check_sharding"
AFTER_TRAINING = {"validate": "upstream_failed", "register": "upstream_failed"}


@pytest.fixture(scope="module")
def trained(lockstep_stack: Stack) -> FinishedRun:
    """One good run with the DAG's own defaults, for all tests that need one."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in lockstep_stack.environment().items():
            patch.setenv(name, value)
        return run_to_the_end(load_dag(FILE), params={"model_name": "good"}, logical_date=DATE)


@pytest.fixture
def dag(run_dag: RunDag, lockstep_dag: LoadDag) -> Any:
    """The DAG as this test's environment makes it: the stack's."""
    return lockstep_dag(FILE)


def test_two_workers_train_a_model_that_is_validated_and_registered(
    trained: FinishedRun, versions: Versions, dag: Any
) -> None:
    assert (trained.state, trained.errors) == ("success", {})
    assert set(trained.tasks.values()) == {"success"}
    trained_by, validated, registered = (trained.returned[task] for task in ("train", "validate", "register"))
    assert (trained_by["workers"], trained_by["strategy"]) == (2, "MultiWorkerMirroredStrategy")
    assert validated["metrics"]["eval_accuracy"] >= 0.95
    assert (registered["name"], registered["version"], registered["alias"]) == ("good", 1, "champion")
    stored = RunDirectory.at(trained_by["run_directory"]).digest(validated["model"])
    assert stored == validated["digest"] == registered["digest"]
    (version,) = versions("good")
    assert version.source == f"{trained_by['run_directory']}/{validated['model']}"


def test_running_every_task_again_ends_in_the_same_state(
    trained: FinishedRun, versions: Versions, dag: Any, run_dag: RunDag
) -> None:
    """Cleared and run again: nothing is trained, written or registered a second time."""
    directory = GsUrl.parse(trained.returned["train"]["run_directory"])
    before = CloudStorage().contents(directory)

    again = run_dag(dag, params={"model_name": "good"}, logical_date=DATE)

    assert (again.run_id, again.state, again.returned) == (trained.run_id, "success", trained.returned)
    assert CloudStorage().contents(directory) == before
    assert len(versions("good")) == 1


def test_a_damaged_export_is_refused_and_not_registered(
    trained: FinishedRun, versions: Versions, dag: Any, run_dag: RunDag
) -> None:
    """One file of the model loses its end between training and validation."""
    date = datetime(2026, 11, 29, tzinfo=UTC)
    copy_directory(trained.returned["train"]["run_directory"], directory_of(date))
    truncate(f"{directory_of(date)}/model/saved_model.pb")

    run = run_dag(
        dag, params={"model_name": "damaged"}, logical_date=date, mark_success_pattern=f"{BEFORE_TRAINING}|train"
    )

    assert run.state == "failed"
    assert (run.tasks["validate"], run.tasks["register"]) == ("failed", "upstream_failed")
    assert "model/saved_model.pb" in run.errors["validate"]
    assert versions("damaged") == []


def test_a_killed_worker_ends_the_gang_and_is_named_where_nothing_is_restarted(
    trained: FinishedRun, versions: Versions, dag: Any, run_dag: RunDag, lockstep_stack: Stack
) -> None:
    """Within 15 s the others are gone; the task has failed with one line, and nothing is registered."""
    date, state = datetime(2026, 11, 28, tzinfo=UTC), lockstep_stack.layout.state
    directory = RunDirectory.at(directory_of(date))

    def training() -> bool:
        return bool((directory.read_json(PROGRESS) or {}).get("step")) and len(workers(state)) == 2

    with Killer(state, rank=1, training=training) as killer:
        run = run_dag(
            dag,
            params={"model_name": "killed", "epochs": 1000, "max_infra_restarts": 0},
            logical_date=date,
            retries=0,
            mark_success_pattern=BEFORE_TRAINING,
        )

    assert killer.outlived_s is not None
    assert killer.outlived_s < 15
    assert run.state == "failed"
    assert run.tasks.items() >= ({"train": "failed"} | AFTER_TRAINING).items()
    assert run.errors["train"].startswith("worker 1 on ")
    assert "exit code 137: killed (SIGKILL)" in run.errors["train"]
    assert run.errors["train"].endswith("; the other worker was ended with it")
    assert "\n" not in run.errors["train"]
    assert versions("killed") == []
    assert pods(lockstep_stack) == []


@pytest.mark.parametrize(
    ("settings", "params", "refusal"),
    [
        pytest.param({}, {"worker": 3}, "unknown parameter 'worker' (did you mean 'workers'?)", id="an unknown key"),
        pytest.param({"run_root": "/tmp/runs"}, {}, "write it as gs://bucket/folder", id="runs not in Cloud Storage"),
        pytest.param({"run_root": "gs://nowhere/runs"}, {}, "the bucket 'nowhere' does not exist", id="no such bucket"),
        pytest.param({"kubernetes_conn_id": "nowhere"}, {}, "Airflow connection 'nowhere'", id="no such connection"),
    ],
)
def test_what_cannot_work_is_refused_before_a_pod_exists(
    settings: Mapping[str, str],
    params: Mapping[str, Any],
    refusal: str,
    run_dag: RunDag,
    lockstep_dag: LoadDag,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """At once, without a retry, though the DAG's tasks have one."""
    for key, value in settings.items():
        monkeypatch.setenv(f"AIRFLOW__LOCKSTEP__{key.upper()}", value)

    run = run_dag(lockstep_dag(FILE), params=params)

    assert run.state == "failed"
    assert (run.tasks.pop("preflight"), set(run.tasks.values())) == ("failed", {"upstream_failed"})
    assert refusal in run.errors["preflight"]


def test_fewer_files_than_workers_are_refused_before_a_pod_exists(
    dag: Any, run_dag: RunDag, lockstep_stack: Stack
) -> None:
    for shard in range(2):
        CloudStorage().create(GsUrl.parse(f"gs://lockstep/few/train-{shard:05d}-of-00002.tfrecord"), b"records")

    run = run_dag(
        dag,
        params={"sharding": "file", "files": 2, "workers": 3, "dataset": "gs://lockstep/few"},
        mark_success_pattern="preflight|prepare_shards",
    )

    assert run.tasks["check_sharding"] == "failed"
    assert run.errors["check_sharding"] == (
        "sharding 'file' needs a file for each of 3 workers, but gs://lockstep/few/train-*-of-00002.tfrecord "
        "matches 2: write at least 3 files, use at most 2 workers, or choose sharding 'data'"
    )
    assert run.tasks["train"] == "upstream_failed"
    assert pods(lockstep_stack) == []


def test_an_image_that_does_not_exist_is_named(
    trained: FinishedRun, run_dag: RunDag, lockstep_dag: LoadDag, monkeypatch: pytest.MonkeyPatch, lockstep_stack: Stack
) -> None:
    monkeypatch.setenv("AIRFLOW__LOCKSTEP__IMAGE", "no-such/image:1")
    run = run_dag(lockstep_dag(FILE), mark_success_pattern=BEFORE_TRAINING)
    assert run.tasks.items() >= ({"train": "failed"} | AFTER_TRAINING).items()
    assert "its image cannot be pulled" in run.errors["train"]
    assert "no-such/image:1" in run.errors["train"]
    assert pods(lockstep_stack) == []


def test_no_workers_are_refused_by_the_form(dag: Any, run_dag: RunDag) -> None:
    with pytest.raises(Exception, match="less than the minimum of 1"):
        run_dag(dag, params={"workers": 0})


def directory_of(date: datetime) -> str:
    """Where the run for this date keeps what it trains."""
    return run_url(RUN_ROOT, GangId(dag_id="train_digits", run_id=f"manual__{date.isoformat()}", task_id="train"))


def copy_directory(source: str, target: str) -> None:
    storage = CloudStorage()
    for item in storage.contents(GsUrl.parse(source)):
        content = storage.read(GsUrl.parse(source) / item.path)
        assert content is not None
        storage.create(GsUrl.parse(target) / item.path, content)


def truncate(url: str) -> None:
    """Rewrite an object without its last byte."""
    storage, target = CloudStorage(), GsUrl.parse(url)
    content = storage.read(target)
    assert content is not None
    storage.delete(target)
    storage.create(target, content[:-1])


def pods(stack: Stack) -> list[str]:
    from kubernetes import client, config

    with config.new_client_from_config(str(stack.layout.kubeconfig)) as api:
        return [pod.metadata.name for pod in client.CoreV1Api(api).list_namespaced_pod("default").items]
