"""The buttons on a task's page: there as soon as the task is, and never an error in its log."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.local.kube.running_server import IMAGE

GANG = """
from airflow.sdk import DAG
from lockstep.operators.gang import GangOperator

class OneShot(GangOperator):
    def execute(self, context):
        return self.run_gang(self.plan(context), context)

    def spec(self, context):
        training = {"job": "a:B", "train_data": "gs://bucket/*", "global_batch_size": 1}
        code = f"raise SystemExit({context['params']['code']})"
        return self._spec(context, workers=1, training=training, command=("python", "-c", code))

    def conclude(self, context):
        return {}

with DAG("linked", schedule=None, params={"code": 0}):
    OneShot(task_id="gang", retries=0)
"""

RunDag = Callable[..., tuple[list[dict[str, Any]], str]]


@pytest.mark.parametrize(
    ("code", "state"),
    [
        pytest.param(0, "success", id="a task that defers and succeeds"),
        pytest.param(1, "failed", id="a task that defers and fails"),
    ],
)
def test_a_gang_leads_to_its_run_directory_whatever_becomes_of_it(
    code: int, state: str, run_dag: RunDag, kubeconfig: Path
) -> None:
    """Before the task has returned anything; Airflow would log an error for an XCom that is not there."""
    connection = {"conn_type": "kubernetes", "extra": {"kube_config_path": str(kubeconfig)}}
    (run,), log = run_dag(
        GANG,
        {"code": code},
        AIRFLOW_CONN_KUBERNETES_DEFAULT=json.dumps(connection),
        AIRFLOW__LOCKSTEP__IMAGE=IMAGE,
        AIRFLOW__LOCKSTEP__RENDEZVOUS="loopback",
        AIRFLOW__LOCKSTEP__RUN_ROOT="gs://bucket/runs",
    )
    assert run["state"] == state, log[-5000:]
    page = run["xcoms"]["gang._link_RunDirectoryLink"]
    assert page.startswith("https://console.cloud.google.com/storage/browser/bucket/runs/linked/manual__")
    assert "XCom not found" not in log
