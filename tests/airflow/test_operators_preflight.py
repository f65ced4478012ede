"""Preflight sees, before anything expensive, all that a run lacks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from lockstep.kubernetes_access import NEEDED
from lockstep.operators.preflight import PreflightOperator
from tests.airflow.kubernetes_connection import connect
from tests.airflow.task_context import task_context
from tests.http_server import Answering, serving

ROOT = Path(__file__).parents[2]


@pytest.fixture
def installation(
    bucket: str, kubeconfig: Path, mlflow_server: str, monkeypatch: pytest.MonkeyPatch
) -> pytest.MonkeyPatch:
    """All that a run needs, as an installation sets it; a test takes something away."""
    monkeypatch.setenv("AIRFLOW__LOCKSTEP__RUN_ROOT", f"{bucket}/runs")
    monkeypatch.setenv("AIRFLOW__LOCKSTEP__MLFLOW_TRACKING_URI", mlflow_server)
    connect(monkeypatch, kubeconfig)
    return monkeypatch


def preflight(conf: dict[str, Any] | None = None, **arguments: Any) -> list[str]:
    operator = PreflightOperator(task_id="preflight", **{"model_name": "digits", **arguments})
    return operator.execute(task_context(conf=conf, workers=2, epochs=5))  # type: ignore[no-any-return]


def test_a_complete_installation_passes(installation: pytest.MonkeyPatch) -> None:
    """And the report says what was looked at."""
    assert preflight(conf={"workers": 3}) == ["parameters", "run root", "cluster", "model name", "registry"]
    assert preflight(model_name=None) == ["parameters", "run root", "cluster"]


def test_a_parameter_that_the_dag_does_not_know_is_refused(installation: pytest.MonkeyPatch) -> None:
    """Airflow lets it pass and ignores it; whoever mistyped it would train something else."""
    with pytest.raises(
        AirflowFailException, match=r"'worker' \(did you mean 'workers'\?\); valid ones: epochs, workers"
    ):
        preflight(conf={"worker": 3})


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        pytest.param(
            {"run_root": "/mnt/runs"}, "run root: run_root '/mnt/runs' is not in Cloud Storage", id="not gs://"
        ),
        pytest.param({"run_root": "gs://no-such-bucket/x"}, "bucket 'no-such-bucket' does not exist", id="no bucket"),
        pytest.param({"kubernetes_conn_id": "nowhere"}, "cluster: Airflow connection 'nowhere'", id="no connection"),
        pytest.param({"namespace": "no-such-namespace"}, "create the namespace", id="no namespace"),
        pytest.param({"model_name": "a/b"}, "model name: model name 'a/b'", id="a model name that MLflow refuses"),
        pytest.param({"alias": "latest"}, "model name: alias 'latest'", id="an alias that MLflow refuses"),
    ],
)
def test_one_thing_missing_is_enough(
    installation: pytest.MonkeyPatch, arguments: dict[str, Any], complaint: str
) -> None:
    """Fails without a retry, naming it and the next step."""
    with pytest.raises(AirflowFailException, match=complaint) as failed:
        preflight(**arguments)
    assert str(failed.value).startswith("1 problem found before the start: ")


def test_settings_that_are_nowhere_are_named(installation: pytest.MonkeyPatch) -> None:
    """The error tells both places where to give them."""
    installation.delenv("AIRFLOW__LOCKSTEP__RUN_ROOT")
    installation.delenv("AIRFLOW__LOCKSTEP__MLFLOW_TRACKING_URI")
    with pytest.raises(
        AirflowFailException, match=r"AIRFLOW__LOCKSTEP__RUN_ROOT.*AIRFLOW__LOCKSTEP__MLFLOW_TRACKING_URI"
    ):
        preflight()


def test_all_that_is_missing_is_reported_at_once(installation: pytest.MonkeyPatch) -> None:
    """Not one a run."""
    with pytest.raises(
        AirflowFailException, match=r"4 problems .*parameters: .* \| run root: .* \| cluster: .* \| model name: "
    ):
        preflight(conf={"epoch": 1}, run_root="x", kubernetes_conn_id="nowhere", model_name="a/b")


def test_what_may_pass_by_itself_leaves_the_retries(
    installation: pytest.MonkeyPatch, kubeconfig: Path, tmp_path: Path
) -> None:
    """A cluster that does not answer now may answer later; together with a mistake it may not."""
    connect(installation, down(kubeconfig, tmp_path))
    with pytest.raises(AirflowException, match="did not answer") as failed:
        preflight()
    assert not isinstance(failed.value, AirflowFailException)
    with pytest.raises(AirflowFailException):
        preflight(conf={"epoch": 1})


def down(kubeconfig: Path, folder: Path) -> Path:
    """The same kubeconfig, leading to a port where nobody listens."""
    return _leading_to("https://127.0.0.1:9", kubeconfig, folder)


def _leading_to(server: str, kubeconfig: Path, folder: Path) -> Path:
    document = yaml.safe_load(kubeconfig.read_text())
    document["clusters"][0]["cluster"] = {"server": server}
    (folder / "kubeconfig").write_text(yaml.safe_dump(document))
    return folder / "kubeconfig"


@contextmanager
def guarded_cluster(*denied: tuple[str, str]) -> Iterator[str]:
    """An API server that lets nobody look at namespaces and denies some verbs on some resources."""

    class Guard(Answering):
        def do_GET(self) -> None:
            self.answer(403, json.dumps({"kind": "Status", "message": "namespaces is forbidden", "code": 403}))

        def do_POST(self) -> None:
            review = json.loads(self.asked())
            asked = review["spec"]["resourceAttributes"]
            review["status"] = {"allowed": (asked["verb"], asked["resource"]) not in denied}
            self.answer(201, json.dumps(review))

    with serving(Guard) as address:
        yield f"http://{address}"


def test_the_rights_asked_for_are_those_of_the_role() -> None:
    """Nothing is asked that an installation by docker/kubernetes/ lacks, and nothing is granted that is not asked."""
    role = next(yaml.safe_load_all((ROOT / "docker/kubernetes/gang-role.yaml").read_text()))
    granted = {f"{verb} {name}" for rule in role["rules"] for name in rule["resources"] for verb in rule["verbs"]}
    assert {str(right) for right in NEEDED} == granted


def test_missing_rights_are_named(installation: pytest.MonkeyPatch, kubeconfig: Path, tmp_path: Path) -> None:
    """Each by its verb and resource, as a Role says it."""
    with guarded_cluster(("deletecollection", "pods"), ("create", "services")) as server:
        connect(installation, _leading_to(server, kubeconfig, tmp_path))
        with pytest.raises(
            AirflowFailException, match="may not create services, deletecollection pods in namespace 'default'"
        ):
            preflight()


def test_who_may_not_look_at_namespaces_may_still_run_gangs(
    installation: pytest.MonkeyPatch, kubeconfig: Path, tmp_path: Path
) -> None:
    """A Role within one namespace need not allow it."""
    with guarded_cluster() as server:
        connect(installation, _leading_to(server, kubeconfig, tmp_path))
        assert "cluster" in preflight()
