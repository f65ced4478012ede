"""`python -m lockstep plan` and `dry_run()` show what a task would create, to the letter, and send nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from lockstep.__main__ import main
from lockstep.gang_manifests import as_yaml
from lockstep.pytest_plugin import LoadDag, PlanGang

NIGHTLY = """
from airflow.providers.cncf.kubernetes.secret import Secret
from airflow.sdk import DAG, Param, task
from lockstep.operators.train import DistributedTrainingOperator

print("a DAG file may print")
with DAG("nightly", schedule="@daily", params={"workers": Param(2, type="integer", minimum=1, maximum=8)}):
    @task
    def prepare(): ...

    asked = {"job": "jobs.mine:Job", "train_data": "gs://data-of-ours/{{ ds }}/train-*", "per_replica_batch_size": 32}
    train = DistributedTrainingOperator(
        task_id="train",
        workers="{{ params.workers }}",
        training=asked,
        env={"RATE": "1e-3", "ON": "yes", "PORT": "0o17"},
        pod_options={"secrets": [Secret("env", "TOKEN", "training", "token")]},
    )
    informed = DistributedTrainingOperator(
        task_id="informed", workers="{{ ti.xcom_pull('prepare') }}", training=asked, image="trainer:9"
    )
    mapped = DistributedTrainingOperator.partial(task_id="mapped", workers=1).expand(
        training=[asked, asked | {"epochs": 7}]
    )
    guarded = DistributedTrainingOperator(
        task_id="guarded",
        roles={"chief": {}, "worker": {"replicas": "{{ params.workers }}"}},
        training=asked,
        network_policy=True,
        gang_scheduling="volcano",
    )
    prepare() >> train
"""
RUN = ("--run-id", "scheduled__2026-12-24T00:00:00+00:00", "--logical-date", "2026-12-24")


@pytest.fixture
def nightly(lockstep_settings: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "nightly.py").write_text(NIGHTLY)
    monkeypatch.setattr("airflow.settings.DAGS_FOLDER", str(tmp_path))
    return tmp_path / "nightly.py"


@pytest.fixture
def planned(nightly: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """`planned("train", …)`: what the command prints for a task of the DAG, which must not be refused."""

    def run(task: str, *options: str, dag: str = str(nightly)) -> str:
        code = main(["plan", dag, task, *options])
        shown = capsys.readouterr()
        assert code == 0, shown.err
        return shown.out

    return run


def environment(pod: dict[str, Any]) -> dict[str, Any]:
    (container,) = pod["spec"]["containers"]
    return {variable["name"]: variable.get("value", variable.get("valueFrom")) for variable in container["env"]}


def test_the_manifests_are_those_that_would_be_created(
    planned: Any, nightly: Path, lockstep_dag: LoadDag, gang_plan: PlanGang
) -> None:
    shown = list(yaml.safe_load_all(planned("train", *RUN, "--param", "workers=3")))
    assert [manifest["kind"] for manifest in shown] == ["Service", "Pod", "Pod", "Pod"]
    expected = gang_plan(lockstep_dag(nightly), "train", params={"workers": 3}, run_id=RUN[1])
    names = [manifest["metadata"]["name"] for manifest in shown]
    assert names == [expected.plan.service, *(worker.name for worker in expected.plan.workers)]
    training = json.loads(environment(shown[1])["LOCKSTEP_TRAINING"])
    assert training["train_data"] == "gs://data-of-ours/2026-12-24/train-*"


def test_json_says_the_same_as_yaml(planned: Any) -> None:
    given = json.loads(planned("train", *RUN, "--format", "json"))
    assert given["kind"] == "List"
    assert given["items"] == list(yaml.safe_load_all(planned("train", *RUN)))


def test_what_is_created_beside_service_and_pods_is_shown_in_its_place(planned: Any) -> None:
    shown = list(yaml.safe_load_all(planned("guarded")))
    assert [each["kind"] for each in shown] == ["Service", "NetworkPolicy", "PodGroup", "Pod", "Pod", "Pod"]
    service, *owned = shown
    assert {each["metadata"]["ownerReferences"][0]["name"] for each in owned} == {service["metadata"]["name"]}
    assert [each["metadata"]["labels"]["lockstep/role"] for each in owned[2:]] == ["chief", "worker", "worker"]


def test_secrets_stay_references_and_text_stays_text(planned: Any) -> None:
    pod = list(yaml.safe_load_all(planned("train")))[1]
    shown = environment(pod)
    assert shown["TOKEN"] == {"secretKeyRef": {"name": "training", "key": "token"}}
    assert (shown["RATE"], shown["ON"], shown["PORT"]) == ("1e-3", "yes", "0o17")


@pytest.mark.parametrize("text", ["1e3", "12e45", "0x1f", "1_000", "yes", "NO", "on", "y", "~", "null", ".nan", "1:30"])
def test_text_that_some_reader_of_yaml_takes_for_something_else_is_quoted(text: str) -> None:
    assert as_yaml([{"key": text}]).strip() in (f'---\nkey: "{text}"', f"---\nkey: '{text}'")


def test_a_dag_is_found_by_its_id_in_the_dags_folder(planned: Any) -> None:
    assert planned("train", *RUN, dag="nightly") == planned("train", *RUN)


def test_what_upstream_tasks_have_returned_can_be_given(planned: Any) -> None:
    shown = list(yaml.safe_load_all(planned("informed", "--returned", "prepare=4")))
    assert len(shown) == 5


def test_an_instance_of_a_mapped_task_is_planned_as_that_one(planned: Any) -> None:
    first, second = (list(yaml.safe_load_all(planned("mapped", *RUN, "--map-index", index)))[1] for index in ("0", "1"))
    assert first["metadata"]["name"] != second["metadata"]["name"]
    assert [json.loads(environment(pod)["LOCKSTEP_TRAINING"])["epochs"] for pod in (first, second)] == [1, 7]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        pytest.param(
            ("nigthly", "train"), "no DAG 'nigthly' (did you mean 'nightly'?) in", id="a DAG that is not in the folder"
        ),
        pytest.param(("nowhere.py", "train"), "there is no DAG file nowhere.py", id="a file that is not there"),
        pytest.param(
            ("nightly", "trian"),
            "DAG nightly has no task 'trian' (did you mean 'train'?); it has: guarded, informed, mapped, prepare",
            id="a task that the DAG has not",
        ),
        pytest.param(
            ("nightly", "prepare"), "task 'prepare' of nightly starts no gang: it is a", id="a task without a gang"
        ),
        pytest.param(
            ("nightly", "train", "--param", "wokers=3"), "'wokers' (did you mean 'workers'?)", id="an unknown param"
        ),
        pytest.param(
            ("nightly", "train", "--param", "workers=9"), "greater than the maximum of 8", id="a param out of bounds"
        ),
        pytest.param(("nightly", "informed"), "a template asks for", id="an XCom that is not given"),
    ],
)
def test_what_cannot_be_planned_is_refused_and_nothing_is_printed(
    arguments: tuple[str, ...], told: str, nightly: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", *arguments]) == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "lockstep plan: " in shown.err
    assert told in shown.err


def test_a_file_that_cannot_be_imported_is_named_where_the_dag_is_missed(
    nightly: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (nightly.parent / "broken.py").write_text("from airflow.sdk import DAG\nimport no_such_module")
    assert main(["plan", "weekly", "train"]) == 1
    assert "it has: nightly; Airflow cannot import broken.py" in capsys.readouterr().err


def test_one_of_several_dags_in_a_file_is_named(planned: Any, nightly: Path) -> None:
    nightly.write_text(NIGHTLY + '\nwith DAG("other", schedule=None): ...\n')
    assert "train" in planned("train", "--dag-id", "nightly")


def test_dry_run_prints_the_manifests(nightly: Path, lockstep_dag: LoadDag, capsys: pytest.CaptureFixture[str]) -> None:
    """Airflow calls it once the templates are rendered, and does not say of which run."""
    operator = lockstep_dag(nightly).get_task("train")
    operator.workers = 2
    capsys.readouterr()
    operator.dry_run()
    _, start, shown = capsys.readouterr().out.partition("---\n")  # Airflow logs to the same stream before
    service, *pods = yaml.safe_load_all(start + shown)
    assert service["metadata"]["labels"]["run_id"] == "dry_run"
    assert [pod["metadata"]["labels"]["lockstep/rank"] for pod in pods] == ["0", "1"]
