"""The tasks around the gang, joined in a DAG and run by Airflow: templates, XComs, links and asset events."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.airflow.trained_run import RESULT, put, put_run

DAG = """
from airflow.sdk import DAG, Asset, Param
from lockstep.operators.check_sharding import CheckShardingOperator
from lockstep.operators.register import RegisterModelOperator
from lockstep.operators.validate import ValidateCheckpointOperator

with DAG("surroundings", schedule=None, params={
    "bucket": Param("", type="string"),
    "run": Param("", type="string"),
    "workers": Param(2, type="integer", minimum=1),
    "least": Param(0.9, type="number"),
}):
    sharding = CheckShardingOperator(
        task_id="check_sharding", train_data="{{ params.bucket }}/data/train-*", workers="{{ params.workers }}"
    )
    validate = ValidateCheckpointOperator(
        task_id="validate",
        run_directory="{{ params.bucket }}/runs/{{ params.run }}",
        min_metrics={"eval_accuracy": "{{ params.least }}"},
        max_drop={"eval_accuracy": 0.05},
        model_name="digits-{{ params.bucket | replace('gs://', '') }}",
        verify_command=None,
    )
    register = RegisterModelOperator(
        task_id="register",
        model_name="digits-{{ params.bucket | replace('gs://', '') }}",
        validated=validate.output,
        outlets=[Asset(name="digits", uri="x-model://digits")],
    )
    sharding >> validate
"""

RunDag = Callable[..., tuple[list[dict[str, Any]], str]]


def test_what_a_run_left_is_checked_registered_once_and_announced(
    run_dag: RunDag, bucket: str, storage_emulator: str, mlflow_server: str
) -> None:
    """Four runs: a model, the same again, another one, a damaged one. Airflow itself carries what passes between."""
    for number in range(4):
        put(f"{bucket}/data/train-{number}", b"records")
    put_run(f"{bucket}/runs/good")
    put_run(f"{bucket}/runs/other", model=b"another saved model")
    put_run(f"{bucket}/runs/damaged")
    put(f"{bucket}/runs/damaged/model/saved_model.pb", b"truncated")
    runs, log = run_dag(
        DAG,
        *({"bucket": bucket, "run": run} for run in ("good", "good", "other")),
        {"bucket": bucket, "run": "damaged", "workers": 3},
        STORAGE_EMULATOR_HOST=storage_emulator,
        AIRFLOW__LOCKSTEP__MLFLOW_TRACKING_URI=mlflow_server,
    )
    first, again, other, damaged = runs

    assert [run["state"] for run in runs] == ["success", "success", "success", "failed"], log[-5000:]
    assert first["xcoms"]["check_sharding.return_value"].items() >= {"policy": "FILE", "files": 4, "workers": 2}.items()
    verified, version = first["xcoms"]["validate.return_value"], first["xcoms"]["register.return_value"]
    assert (verified["step"], verified["files"], verified["metrics"]) == (420, 6, RESULT["metrics"])
    assert (version["version"], version["alias"], version["digest"]) == (1, "champion", verified["digest"])
    assert version["source"] == f"{bucket}/runs/good/model"
    assert first["xcoms"]["register._link_ModelVersionLink"] == version["page"]
    assert version["page"].startswith(f"{mlflow_server}/#/models/")
    (event,) = first["events"]
    assert event["uri"] == "x-model://digits"
    assert event["extra"].items() >= {"version": 1, "digest": verified["digest"]}.items()

    assert again["xcoms"]["register.return_value"] == version
    assert other["xcoms"]["register.return_value"]["version"] == 2

    assert damaged["tasks"] == {"check_sharding": "success", "validate": "failed", "register": "upstream_failed"}
    assert damaged["xcoms"]["check_sharding.return_value"]["policy"] == "DATA"
    assert damaged["events"] == []
    assert "XCom not found" not in log
    assert "model/saved_model.pb has 9 bytes, the manifest says 13" in log
