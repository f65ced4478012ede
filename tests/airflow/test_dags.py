"""What the DAGs promise before they run: they load, the form checks, and the gang is planned as asked."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

from lockstep.errors import InvalidSpec
from lockstep.pytest_plugin import LoadDag, PlanGang

ROOT = Path(__file__).parents[2]
FILE = "dags/train_digits.py"
TASKS = ["preflight", "prepare_shards", "check_sharding", "train", "validate", "register"]


@pytest.fixture
def dag(lockstep_dag: LoadDag) -> Any:
    return lockstep_dag(FILE, "train_digits")


def test_it_loads_without_a_warning(lockstep_dag: LoadDag) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lockstep_dag(FILE)


def test_its_tasks_follow_each_other(dag: Any) -> None:
    assert [task.task_id for task in dag.topological_sort()] == TASKS
    followed_by = [dag.get_task(before).downstream_task_ids for before in TASKS[:-1]]
    assert followed_by == [{after} for after in TASKS[1:]]


def test_it_runs_daily_one_run_at_a_time_and_makes_up_for_nothing(dag: Any) -> None:
    assert (dag.schedule, dag.catchup, dag.max_active_runs) == ("@daily", False, 1)


@pytest.mark.parametrize(
    ("params", "refusal"),
    [
        pytest.param({"workers": 0}, "less than the minimum of 1", id="no workers"),
        pytest.param({"workers": "many"}, "not of type 'integer'", id="workers that are no number"),
        pytest.param({"sharding": "random"}, "not one of", id="an unknown sharding policy"),
        pytest.param({"epochs": 0}, "less than the minimum of 1", id="no epochs"),
        pytest.param({"learning_rate": 0}, "less than or equal to the minimum of 0", id="a learning rate of nothing"),
        pytest.param({"dataset": "/data/digits"}, "does not match", id="a data set that is not in Cloud Storage"),
        pytest.param({"min_accuracy": 1.5}, "greater than the maximum of 1", id="an accuracy above one"),
    ],
)
def test_its_form_refuses(dag: Any, gang_plan: PlanGang, params: dict[str, Any], refusal: str) -> None:
    with pytest.raises(Exception, match=refusal):
        gang_plan(dag, "train", params=params)


def test_an_unknown_param_is_refused_and_the_valid_ones_are_listed(dag: Any, gang_plan: PlanGang) -> None:
    with pytest.raises(InvalidSpec, match=r"'worker' \(did you mean 'workers'\?\); valid ones: alias, dataset, epochs"):
        gang_plan(dag, "train", params={"worker": 3})


def test_one_worker_trains_without_a_cluster(dag: Any, gang_plan: PlanGang) -> None:
    (worker,) = gang_plan(dag, "train", params={"workers": 1}).plan.workers
    assert "TF_CONFIG" not in worker.env


def test_three_workers_each_know_their_place(dag: Any, gang_plan: PlanGang) -> None:
    gang = gang_plan(dag, "train", params={"workers": 3})
    configs = [json.loads(worker.env["TF_CONFIG"]) for worker in gang.plan.workers]
    assert [config["task"] for config in configs] == [{"type": "worker", "index": rank} for rank in range(3)]
    assert all(config["cluster"] == {"worker": [peer.address for peer in gang.plan.workers]} for config in configs)
    assert [pod["metadata"]["name"] for pod in gang.pods] == [worker.name for worker in gang.plan.workers]


def test_what_the_form_says_reaches_the_trainer(dag: Any, gang_plan: PlanGang) -> None:
    asked = {
        "epochs": 3,
        "per_replica_batch_size": 16,
        "learning_rate": 0.01,
        "sharding": "data",
        "dataset": "gs://mine/digits",
        "files": 4,
        "seed": 7,
    }
    training = gang_plan(dag, "train", params=asked).plan.spec.training
    assert (training.epochs, training.per_replica_batch_size, training.learning_rate) == (3, 16, 0.01)
    assert (training.sharding, training.seed) == ("data", 7)
    assert training.train_data == "gs://mine/digits/train-*-of-00004.tfrecord"
    assert training.eval_data == "gs://mine/digits/eval-*.tfrecord"


def test_the_sweep_runs_by_itself_and_never_beside_itself(lockstep_dag: LoadDag) -> None:
    """Nobody has to unpause it; a sweep that was missed is not made up for."""
    sweep = lockstep_dag("dags/lockstep_sweep.py", "lockstep_sweep")
    assert (sweep.schedule, sweep.catchup, sweep.max_active_runs) == ("*/10 * * * *", False, 1)
    assert sweep.is_paused_upon_creation is False


IMPORTED = """
import json, sys
import lockstep.deployment
from lockstep.operators import check_sharding, preflight, register, sweep, train, validate
print(json.dumps(sorted(sys.modules)))
"""
HEAVY = ["tensorflow", "keras", "kubernetes", "kubernetes_asyncio", "mlflow", "google.cloud", "numpy", "trainer"]


@pytest.mark.parametrize("library", HEAVY)
def test_naming_lockstep_s_tasks_imports_no_heavy_library(library: str, imported: set[str]) -> None:
    """DAG files are read all day. (KubernetesPodOperator itself brings both Kubernetes clients; that is its own.)"""
    assert library not in imported


@pytest.fixture(scope="module")
def imported() -> set[str]:
    return set(json.loads(said_by(IMPORTED)[-1]))


PARSED = """
import json, os, sys, time
from airflow.dag_processing.dagbag import DagBag

def seconds(file):
    reading, writing = os.pipe()
    if os.fork() == 0:
        before = time.process_time()
        bag = DagBag(file)
        took = time.process_time() - before
        assert len(bag.dags) == 1 and not bag.import_errors, bag.import_errors
        os.write(writing, json.dumps(took).encode())
        os._exit(0)
    os.wait()
    return json.loads(os.read(reading, 100))

print(json.dumps([seconds(file) for file in sys.argv[1:]]))
"""
EMPTY = """
from airflow.sdk import DAG
from airflow.providers.cncf.kubernetes.operators.pod import KubernetesPodOperator
with DAG("empty", schedule=None):
    KubernetesPodOperator(task_id="one", name="one", image="x")
"""


def test_it_is_read_about_as_fast_as_a_dag_of_one_pod(tmp_path: Path) -> None:
    """In forks of a process that knows Airflow, as the DAG processor reads it; in processor time, so that load tells
    nothing. 1.1 times as long when this was written."""
    (tmp_path / "empty.py").write_text(EMPTY)
    empty, ours = json.loads(said_by(PARSED, str(tmp_path / "empty.py"), FILE)[-1])
    assert ours < 1.5 * empty


def said_by(program: str, *arguments: str) -> list[str]:
    """The lines that a fresh process prints."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "plugins")}
    ended = subprocess.run(
        [sys.executable, "-c", program, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    return ended.stdout.splitlines()
