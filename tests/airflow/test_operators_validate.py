"""Validation passes on only what it has verified, and plans the one pod that loads the model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from lockstep.errors import CheckpointRejected
from lockstep.model_registry import ModelRegistry, Registration
from lockstep.operators.validate import ValidateCheckpointOperator
from tests.airflow.kubernetes_connection import connect
from tests.airflow.task_context import task_context
from tests.airflow.trained_run import RESULT, SPEC, put, put_run
from tests.local.kube.running_server import IMAGE


@pytest.fixture
def run_directory(bucket: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Where the deployment lets the context's run write; a complete run."""
    monkeypatch.setenv("AIRFLOW__LOCKSTEP__RUN_ROOT", f"{bucket}/runs")
    put_run(f"{bucket}/runs/dag/manual__1")
    return f"{bucket}/runs/dag/manual__1"


def validate(**arguments: Any) -> dict[str, Any]:
    operator = ValidateCheckpointOperator(task_id="validate", **{"verify_command": None, **arguments})
    return operator.execute(task_context(task_id="validate"))  # type: ignore[no-any-return]


def test_what_passes_on_names_the_model_and_what_was_verified(run_directory: str) -> None:
    """The run directory is found without being told."""
    put(f"{run_directory}/model/left.tmp", b"x")
    verified = validate(min_metrics={"eval_accuracy": "0.95"})
    checkpoint, model = verified.pop("directories")
    assert verified == {
        "digest": model["digest"],
        "files": 6,
        "size_bytes": checkpoint["size_bytes"] + model["size_bytes"],
        "step": 420,
        "metrics": RESULT["metrics"],
        "checkpoint": "checkpoints/step-00000420",
        "model": "model",
        "run_directory": run_directory,
    }
    assert (model["unlisted"], checkpoint["unlisted"]) == (["left.tmp"], [])


@pytest.mark.parametrize(
    ("path", "content", "complaint"),
    [
        pytest.param("model/saved_model.pb", b"trunc", "has 5 bytes, the manifest says 13", id="a truncated file"),
        pytest.param(
            "model/saved_model.pb", b"A saved model", "has crc32c", id="a file of the same size, but other bytes"
        ),
        pytest.param("model/manifest.json", b"{", "manifest.json cannot be read", id="a torn manifest"),
        pytest.param(
            "result.json", {**RESULT, "workers": 1}, "1 workers trained it, 2 were asked for", id="a smaller gang"
        ),
        pytest.param("result.json", {**RESULT, "metrics": {"loss": float("nan")}}, "loss is nan", id="a loss of NaN"),
        pytest.param("result.json", b"{}", "schema None", id="an empty result"),
        pytest.param("spec.json", b"{}", "does not say what was asked for", id="a request of another kind"),
    ],
)
def test_a_false_claim_is_refused_without_a_retry(run_directory: str, path: str, content: Any, complaint: str) -> None:
    """The bytes would be the same in the next try."""
    put(f"{run_directory}/{path}", content)
    with pytest.raises(AirflowFailException, match=complaint):
        validate()


def test_without_a_result_there_is_nothing_to_validate(bucket: str) -> None:
    """An address where nobody trained."""
    with pytest.raises(AirflowFailException, match=r"result.json is missing, so training has not ended"):
        validate(run_directory=f"{bucket}/elsewhere")


@pytest.mark.parametrize("bound", ["nan", "inf", "high"])
def test_a_bound_that_bounds_nothing_is_refused(run_directory: str, bound: str) -> None:
    """Every comparison with NaN is false, so it would let everything pass."""
    with pytest.raises(AirflowFailException, match="min_metrics"):
        validate(min_metrics={"eval_accuracy": bound})


def test_the_champion_is_what_a_new_model_is_compared_with(run_directory: str, mlflow_server: str) -> None:
    """Read from the registry; the first model of a name has nothing to beat."""
    name = run_directory.split("/")[2]
    compared = {"max_drop": {"eval_accuracy": 0.01}, "model_name": name, "mlflow_tracking_uri": mlflow_server}
    assert validate(**compared)["step"] == 420
    ModelRegistry(mlflow_server).register(
        Registration(name=name, digest="sha256:aa", source="gs://b/m", experiment="e", metrics={"eval_accuracy": 0.99})
    )
    with pytest.raises(AirflowFailException, match=r"eval_accuracy is 0.97, the champion has 0.99"):
        validate(**compared)


def test_a_comparison_needs_a_name(run_directory: str) -> None:
    """With whose champion?"""
    with pytest.raises(AirflowFailException, match="give model_name too"):
        validate(max_rise={"eval_loss": 0.1})


def test_the_pod_that_loads_the_model_is_planned_from_the_request(
    run_directory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One worker of the trainer's image, told where to look."""
    monkeypatch.setenv("AIRFLOW__LOCKSTEP__IMAGE", "lockstep/trainer:test")
    plan = ValidateCheckpointOperator(task_id="validate").plan(task_context(task_id="validate"))
    assert plan.spec.image == "lockstep/trainer:test"
    assert plan.spec.command == ("python", "-m", "trainer.verify_model", run_directory)
    assert plan.spec.training.job == SPEC["training"]["job"]  # type: ignore[index]
    (worker,) = plan.workers
    assert worker.env["LOCKSTEP_RUN_DIRECTORY"] == run_directory
    assert "TF_CONFIG" not in worker.env


def test_no_pod_is_started_for_a_damaged_model(run_directory: str) -> None:
    """Refused first; there is no cluster here that could be asked."""
    put(f"{run_directory}/model/saved_model.pb", b"trunc")
    with pytest.raises(AirflowFailException, match="has 5 bytes"):
        validate(verify_command=("python", "-m", "trainer.verify_model"), image="lockstep/trainer:test")


def test_a_model_changed_while_it_was_loaded_is_refused(run_directory: str) -> None:
    """What passes on is judged after the pod, not before it."""
    operator = ValidateCheckpointOperator(task_id="validate")
    put(f"{run_directory}/model/saved_model.pb", b"trunc")
    with pytest.raises(CheckpointRejected, match="has 5 bytes"):
        operator.conclude(task_context(task_id="validate"))


@pytest.fixture
def cluster(kubeconfig: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster on this machine that the deployment uses."""
    connect(monkeypatch, kubeconfig)
    monkeypatch.setenv("AIRFLOW__LOCKSTEP__IMAGE", IMAGE)
    monkeypatch.setenv("AIRFLOW__LOCKSTEP__RENDEZVOUS", "loopback")


@pytest.mark.usefixtures("cluster")
def test_a_model_that_a_pod_has_loaded_passes(run_directory: str) -> None:
    """The command runs in a pod and is told the run directory last."""
    loads = ("python", "-c", f"import sys; sys.exit(sys.argv[1:] != ['{run_directory}'])")
    assert validate(verify_command=loads, deferrable=False)["step"] == 420


@pytest.mark.usefixtures("cluster")
def test_a_model_that_a_pod_cannot_load_is_refused(run_directory: str) -> None:
    """However well its bytes agree with the manifest; and the pod's own words say why."""
    fails = ("python", "-c", "import sys; print('no signature', file=sys.stderr); sys.exit(65)")
    with pytest.raises(AirflowFailException, match="no signature"):
        validate(verify_command=fails, deferrable=False)
