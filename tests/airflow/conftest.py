"""An Airflow with a database, for whole DAG runs in processes of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.local.kube.running_server import start_server

ROOT = Path(__file__).parents[2]

RUN = """
import json, sys
from airflow.dag_processing.dagbag import DagBag
from airflow.models.asset import AssetEvent
from airflow.models.xcom import XComModel
from airflow.utils.session import create_session
from sqlalchemy import select

def left_by(run):
    with create_session() as session:
        xcoms = session.scalars(select(XComModel).where(XComModel.run_id == run.run_id)).all()
        events = session.scalars(select(AssetEvent).where(AssetEvent.source_run_id == run.run_id)).all()
        return {
            "state": run.state,
            "tasks": {ti.task_id: ti.state for ti in run.get_task_instances(session=session)},
            "xcoms": {xcom.task_id + "." + xcom.key: XComModel.deserialize_value(xcom) for xcom in xcoms},
            "events": [{"uri": event.uri, "extra": event.extra} for event in events],
        }

bag = DagBag(dag_folder=sys.argv[1])
assert not bag.import_errors, bag.import_errors
(dag,) = bag.dags.values()
runs = [left_by(dag.test(run_conf=conf)) for conf in json.loads(sys.argv[2])]
print("\\n" + json.dumps(runs))
"""


@pytest.fixture(scope="session")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Leads to a running one-machine cluster."""
    server = start_server(tmp_path_factory.mktemp("kube"))
    yield server.kubeconfig
    server.end()


@pytest.fixture(scope="session")
def airflow_environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of processes that share one migrated database."""
    home = tmp_path_factory.mktemp("airflow")
    (home / "dags").mkdir()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")} | {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__DAGS_FOLDER": str(home / "dags"),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(ROOT / "plugins"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    }
    migrated = subprocess.run(
        [sys.executable, "-m", "airflow", "db", "migrate"], env=environment, capture_output=True, text=True
    )
    assert migrated.returncode == 0, migrated.stderr[-3000:]
    return environment


@pytest.fixture
def run_dag(airflow_environment: dict[str, str]) -> Callable[..., tuple[list[dict[str, Any]], str]]:
    """`run_dag(source, *confs, **environment)`: what each run of the DAG in `source` left, and the log of them all."""

    def run(source: str, *confs: dict[str, Any], **environment: str) -> tuple[list[dict[str, Any]], str]:
        file = Path(airflow_environment["AIRFLOW__CORE__DAGS_FOLDER"]) / f"dag_{uuid.uuid4().hex}.py"
        file.write_text(source)
        command = [sys.executable, "-c", RUN, str(file), json.dumps(confs)]
        done = subprocess.run(command, env=airflow_environment | environment, capture_output=True, text=True)
        assert done.returncode == 0, (done.stdout + done.stderr)[-5000:]
        return json.loads(done.stdout.splitlines()[-1]), done.stdout + done.stderr

    return run
