"""The demo DAG, unchanged, on the real cluster: prepared, trained on two workers, validated and registered."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.airflow.conftest import RUN, airflow_environment
from tests.cluster.bridge_storage import BUCKET, bridge_storage, lead_pods_to
from tests.cluster.cluster import look
from tests.cluster.gangs import CONN_ID
from tests.cluster.installation import OBJECTS, TRAINER, Installation

__all__ = ["airflow_environment"]  # a fixture, taken from there

DAG_FILE = Path(__file__).parents[2] / "dags" / "train_digits.py"


@pytest.mark.slow
@pytest.mark.skipif(look().layout is None, reason="the storage emulator needs the bridge of a node brought up here")
def test_the_demo_dag_registers_a_model(
    installation: Installation, airflow_environment: dict[str, str], mlflow_server: str, tmp_path: Path
) -> None:
    layout = look().layout
    assert layout is not None
    with bridge_storage(layout.node_address, tmp_path) as storage:
        installation.add(OBJECTS / "pod-tasks")
        installation.administrator.apply(*lead_pods_to(storage, installation))
        settings = airflow_environment | {
            "AIRFLOW__CORE__DAGS_FOLDER": str(DAG_FILE.parent),
            f"AIRFLOW_CONN_{CONN_ID.upper()}": installation.connection,
            "AIRFLOW__LOCKSTEP__KUBERNETES_CONN_ID": CONN_ID,
            "AIRFLOW__LOCKSTEP__NAMESPACE": installation.namespace,
            "AIRFLOW__LOCKSTEP__SERVICE_ACCOUNT": TRAINER,
            "AIRFLOW__LOCKSTEP__IMAGE": os.environ["LOCKSTEP_TEST_IMAGE"],
            "AIRFLOW__LOCKSTEP__RUN_ROOT": f"gs://{BUCKET}/runs",
            "AIRFLOW__LOCKSTEP__RENDEZVOUS": "service",
            "AIRFLOW__LOCKSTEP__MLFLOW_TRACKING_URI": mlflow_server,
            "STORAGE_EMULATOR_HOST": storage.emulator,
        }
        run, log = run_demo(settings, {"workers": 2, "epochs": 8})
    assert run["state"] == "success", log[-8000:]
    assert set(run["tasks"].values()) == {"success"}
    registered = run["xcoms"]["register.return_value"]
    assert (registered["name"], registered["version"]) == ("digits", 1)
    trained = run["xcoms"]["train.return_value"]
    assert (trained["strategy"], trained["workers"]) == ("MultiWorkerMirroredStrategy", 2)


def run_demo(settings: dict[str, str], conf: dict[str, Any]) -> tuple[dict[str, Any], str]:
    command = [sys.executable, "-c", RUN, str(DAG_FILE), json.dumps([conf])]
    done = subprocess.run(command, env=settings, capture_output=True, text=True)
    log = done.stdout + done.stderr
    assert done.returncode == 0, log[-8000:]
    return json.loads(done.stdout.splitlines()[-1])[0], log
