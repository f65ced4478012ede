"""What Lockstep's pytest plugin does for the tests of somebody else's DAGs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from lockstep.dag_check import DagRefused
from lockstep.errors import InvalidSpec
from lockstep.local import service_process
from lockstep.pytest_plugin import LoadDag, PlanGang

ROOT = Path(__file__).parents[2]

TRAINING = """
from datetime import timedelta
from airflow.sdk import DAG, Param, task
from lockstep.operators.train import DistributedTrainingOperator

with DAG("nightly", schedule="@daily", params={"workers": Param(2, type="integer", minimum=1)}) as dag:
    @task(multiple_outputs=True)
    def prepare():
        return {"folder": "gs://data/today", "samples": 1437}

    train = DistributedTrainingOperator(
        task_id="train",
        workers="{{ params.workers }}",
        training={
            "job": "jobs.mine:Job",
            "train_data": "{{ ti.xcom_pull('prepare')['folder'] }}/{{ ds }}/train-*",
            "train_samples": prepare()["samples"],
            "per_replica_batch_size": 32,
        },
        pod_options={"labels": {"team": "vision"}},
    )
"""

BROKEN = {
    "a module that does not exist": ("import no_such_module\nfrom airflow.sdk import DAG", "no_such_module"),
    "no DAG at all": ("from airflow.sdk import DAG", "it has: none"),
    "a cycle": (
        """
from airflow.sdk import DAG, task
with DAG("circle", schedule=None):
    @task
    def one(): ...
    @task
    def two(): ...
    a, b = one(), two()
    a >> b >> a
""",
        "Cycle detected",
    ),
    "a default that its own schema refuses": (
        """
from airflow.sdk import DAG, Param
with DAG("default", schedule="@daily", params={"workers": Param(0, type="integer", minimum=1)}):
    pass
""",
        "less than the minimum of 1",
    ),
    "a task that the scheduler cannot be told of": (
        """
import threading
from airflow.sdk import DAG, BaseOperator
with DAG("lock", schedule=None):
    BaseOperator(task_id="one", params={"lock": threading.Lock()})
""",
        "lock",
    ),
}


@pytest.fixture
def nightly(lockstep_dag: LoadDag, tmp_path: Path) -> Any:
    (tmp_path / "nightly.py").write_text(TRAINING)
    return lockstep_dag(tmp_path / "nightly.py")


@pytest.mark.parametrize(("source", "refusal"), BROKEN.values(), ids=BROKEN.keys())
def test_a_file_that_airflow_would_refuse_fails_the_test(
    source: str, refusal: str, lockstep_dag: LoadDag, tmp_path: Path
) -> None:
    (tmp_path / "broken.py").write_text(source)
    with pytest.raises(DagRefused, match=refusal):
        lockstep_dag(tmp_path / "broken.py")


def test_a_dag_that_is_not_in_the_file_is_refused_and_those_in_it_are_named(
    nightly: Any, lockstep_dag: LoadDag
) -> None:
    with pytest.raises(DagRefused, match="no DAG 'weekly'; it has: nightly"):
        lockstep_dag(nightly.fileloc, "weekly")


def test_a_file_that_is_not_there_is_refused(lockstep_dag: LoadDag) -> None:
    with pytest.raises(DagRefused, match=r"there is no DAG file .*dags/nowhere\.py"):
        lockstep_dag("dags/nowhere.py")


def test_templates_are_rendered_for_the_params_the_date_and_what_upstream_returned(
    nightly: Any, gang_plan: PlanGang
) -> None:
    gang = gang_plan(
        nightly,
        "train",
        params={"workers": 3},
        logical_date=datetime(2026, 12, 24, tzinfo=UTC),
        returned={"prepare": {"folder": "gs://data/xmas", "samples": 1200}},
    )
    training = gang.plan.spec.training
    assert (gang.plan.spec.workers, len(gang.pods)) == (3, 3)
    assert (training.train_data, training.train_samples) == ("gs://data/xmas/2026-12-24/train-*", 1200)
    assert gang.plan.spec.run_directory.startswith("gs://lockstep-test/runs/nightly/manual__2026-12-24")


def test_pods_are_given_as_kubernetes_would_get_them(nightly: Any, gang_plan: PlanGang) -> None:
    gang = gang_plan(nightly, "train", returned={"prepare": {"folder": "gs://data/x", "samples": 1000}})
    chief = gang.pods[0]
    assert chief["metadata"]["labels"]["team"] == "vision"
    assert chief["metadata"]["ownerReferences"][0]["name"] == gang.service["metadata"]["name"]
    environment = {variable["name"]: variable["value"] for variable in chief["spec"]["containers"][0]["env"]}
    assert environment == gang.plan.workers[0].env


def test_an_xcom_that_is_not_given_is_asked_for(nightly: Any, gang_plan: PlanGang) -> None:
    with pytest.raises(LookupError, match=r"give it as returned=\{'prepare': …\}"):
        gang_plan(nightly, "train")


def test_an_unknown_param_is_refused(nightly: Any, gang_plan: PlanGang) -> None:
    with pytest.raises(InvalidSpec, match="valid ones: workers"):
        gang_plan(nightly, "train", params={"wokers": 3})


def test_a_task_without_a_gang_has_no_plan(nightly: Any, gang_plan: PlanGang) -> None:
    with pytest.raises(TypeError, match="task 'prepare' of nightly starts no gang: it is a"):
        gang_plan(nightly, "prepare")


class TestDeployment:
    """An installation's own settings, in place of the plugin's stand-ins."""

    @pytest.fixture
    def lockstep_deployment(self) -> dict[str, str]:
        return {"image": "registry.example/trainer:7", "run_root": "gs://models/runs", "namespace": "vision"}

    def test_it_can_be_overridden(self, nightly: Any, gang_plan: PlanGang) -> None:
        gang = gang_plan(nightly, "train", returned={"prepare": {"folder": "gs://data/x", "samples": 1000}})
        assert gang.plan.spec.image == "registry.example/trainer:7"
        assert gang.pods[0]["metadata"]["namespace"] == "vision"


def test_nothing_of_airflow_is_left_in_the_home_folder_and_no_database_is_made(nightly: Any) -> None:
    home = Path(os.environ["AIRFLOW_HOME"])
    assert home.parent.name.startswith("lockstep-pytest-")
    from airflow.configuration import AIRFLOW_HOME

    assert Path(AIRFLOW_HOME) == home


@pytest.mark.parametrize(
    ("program", "said"),
    [
        pytest.param(
            "import lockstep.pytest_plugin as plugin; plugin.require_own_airflow(); print('its own')",
            "its own",
            id="the plugin first: an installation's database is not touched",
        ),
        pytest.param(
            "import airflow.settings; import lockstep.pytest_plugin as plugin; plugin.require_own_airflow()",
            "UsageError: Airflow was imported before lockstep.pytest_plugin",
            id="airflow first: no run is recorded there",
        ),
    ],
)
def test_whole_runs_never_use_the_database_of_an_installation(program: str, said: str, tmp_path: Path) -> None:
    other = f"sqlite:///{tmp_path}/installation.db"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")} | {
        "PYTHONPATH": str(ROOT / "plugins"),
        "AIRFLOW_HOME": str(tmp_path),
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": other,
    }
    ended = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert said in ended.stdout + ended.stderr
    assert not (tmp_path / "installation.db").exists()


STARTER = """
import signal, sys, threading
from pathlib import Path
from lockstep.local.service import Service, base_environment
from lockstep.local.service_process import start
from lockstep.local.stack import Stack
from lockstep.stack_guard import guarded

signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in what a shell runs in the background
stack = Stack(Path(sys.argv[1]), with_airflow=False)
argv = (sys.executable, "-c", "import threading; threading.Event().wait()")
with guarded(stack):
    environment, folder = base_environment(stack.layout), stack.layout.state
    start(Service(name="idle", argv=argv, env=environment, cwd=folder, ready=None, url=""), Path(sys.argv[2]))
    print("started", flush=True)
    threading.Event().wait()
"""


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_the_stack_ends_with_the_tests_however_they_end(end: signal.Signals, tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir()
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "plugins")}
    command = [sys.executable, "-c", STARTER, str(state), str(tmp_path / "log")]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as starter:
        assert starter.stdout is not None
        assert starter.stdout.readline() == b"started\n"
        left = list(service_process.marked(state))
        assert len(left) == 1
        starter.send_signal(end)
        starter.wait(timeout=60)
    assert service_process.await_end(left, timeout_s=60) == []
