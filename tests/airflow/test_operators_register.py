"""Registration takes only what was validated, once, and says so to those who wait for it."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from airflow.sdk import Asset
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from lockstep.model_registry import ModelRegistry
from lockstep.operators.register import RegisterModelOperator
from lockstep.operators.validate import ValidateCheckpointOperator
from tests.airflow.task_context import task_context
from tests.airflow.trained_run import RESULT, put, put_run

MODEL = Asset(name="digits", uri="x-model://digits")


@pytest.fixture
def validated(bucket: str) -> dict[str, Any]:
    put_run(f"{bucket}/run")
    operator = ValidateCheckpointOperator(task_id="validate", run_directory=f"{bucket}/run", verify_command=None)
    return operator.execute(task_context())  # type: ignore[no-any-return]


@pytest.fixture
def name() -> str:
    return f"digits-{uuid.uuid4().hex}"


def register(context: Any = None, **arguments: Any) -> dict[str, Any]:
    operator = RegisterModelOperator(task_id="register", outlets=[MODEL], **arguments)
    return operator.execute(context or task_context(task_id="register"))  # type: ignore[no-any-return]


def test_the_version_leads_back_to_data_request_and_run(
    validated: dict[str, Any], name: str, mlflow_server: str
) -> None:
    """Everything that decided the model is on its version, and the numbers are on its MLflow run."""
    context = task_context(task_id="register")
    made = register(context, model_name=name, validated=validated, mlflow_tracking_uri=mlflow_server)
    client = ModelRegistry(mlflow_server)._client
    stored = client.get_model_version(name, str(made["version"]))
    tags = {key.removeprefix("lockstep."): value for key, value in stored.tags.items()}
    assert tags.pop("spec_digest").startswith("sha256:")
    assert tags == {
        "dag_id": "dag",
        "run_id": "manual__1",
        "task_id": "register",
        "run_directory": validated["run_directory"],
        "checkpoint": "checkpoints/step-00000420",
        "train_data": "gs://data/train-*",
        "eval_data": "None",
        "step": "420",
        "digest": validated["digest"],
        "model": name,
    }
    run = client.get_run(stored.run_id)
    assert run.data.metrics == RESULT["metrics"]
    assert run.data.params.items() >= {"workers": "2", "epochs": "5", "job_params.units": "32"}.items()
    assert context["outlet_events"][MODEL].extra == {key: made[key] for key in context["outlet_events"][MODEL].extra}
    assert context["outlet_events"][MODEL].extra["version"] == 1


def test_a_model_that_changed_after_validation_is_refused(
    validated: dict[str, Any], name: str, mlflow_server: str
) -> None:
    """Nothing is registered, and no event is sent."""
    put(f"{validated['run_directory']}/model/manifest.json", b"{}")
    context = task_context(task_id="register")
    with pytest.raises(AirflowFailException, match=r"was validated as sha256:.* but storage now has sha256:"):
        register(context, model_name=name, validated=validated, mlflow_tracking_uri=mlflow_server)
    assert ModelRegistry(mlflow_server).champion(name) is None
    assert len(context["outlet_events"]) == 0


def test_what_was_not_validated_is_refused(name: str, mlflow_server: str) -> None:
    """A DAG that skips validation has nothing to hand over."""
    with pytest.raises(AirflowFailException, match=r"validated\.digest: "):
        register(model_name=name, validated=None, mlflow_tracking_uri=mlflow_server)


def test_a_registry_that_is_down_leaves_the_retries(
    validated: dict[str, Any], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the password of its address stays out of the log."""
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with pytest.raises(AirflowException, match="try again") as failed:
        register(model_name=name, validated=validated, mlflow_tracking_uri="http://me:hush@127.0.0.1:9")
    assert not isinstance(failed.value, AirflowFailException)
    assert "hush" not in str(failed.value)
