"""Gangs in which not all are equal: the task lives and dies by those that train, and ends those that serve them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException
from kubernetes.client import CoreV1Api
from kubernetes.config import new_client_from_config

from lockstep.names import gang_selector
from lockstep.operators.gang import gang_of
from lockstep.operators.train import DistributedTrainingOperator
from tests.airflow.kubernetes_connection import connect
from tests.airflow.task_context import task_context
from tests.local.kube.running_server import IMAGE

CONTEXT = task_context(task_id="train")
SCRIPT = Path(__file__).parent / "parameter_server_script.py"
IDLE = ("python", "-c", "import time; time.sleep(600)")
TRAINING = {"job": "a:B", "train_data": "gs://bucket/*", "per_replica_batch_size": 1}


class ForeignTraining(DistributedTrainingOperator):
    """A training of which only the exit codes count: nothing is read from storage."""

    def execute(self, context: Any) -> Any:
        return self.run_gang(self.plan(context), context)

    def conclude(self, context: Any) -> str:
        return "done"

    def first_attempt(self, context: Any) -> int:
        return 1

    def attempt_ended(self, *_: Any) -> str:
        return "it begins anew"


@pytest.fixture
def core(kubeconfig: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[CoreV1Api]:
    connect(monkeypatch, kubeconfig)
    for key, value in {"IMAGE": IMAGE, "RENDEZVOUS": "loopback", "RUN_ROOT": "gs://bucket/runs"}.items():
        monkeypatch.setenv(f"AIRFLOW__LOCKSTEP__{key}", value)
    with new_client_from_config(str(kubeconfig)) as client:
        yield CoreV1Api(client)


def training(roles: dict[str, Any], **arguments: Any) -> ForeignTraining:
    given: dict[str, Any] = {"training": TRAINING, "deferrable": False, "timeouts": {"grace_s": 1}}
    return ForeignTraining(task_id="train", roles=roles, **given | arguments)


def pods(core: CoreV1Api) -> list[str]:
    """Role and phase of the gang's pods that are there."""
    found = core.list_namespaced_pod("default", label_selector=gang_selector(gang_of(CONTEXT))).items
    return sorted(f"{pod.metadata.labels['lockstep/role']} {pod.status.phase}" for pod in found)


def test_tensorflow_trains_with_parameter_servers(core: CoreV1Api, tmp_path: Path) -> None:
    """TensorFlow's own ParameterServerStrategy, with an evaluator beside it; the two that never end are ended."""
    own = {"command": [sys.executable, str(SCRIPT), str(tmp_path / "result")]}
    roles = {"chief": own, "worker": own, "ps": own, "evaluator": {"command": IDLE}}
    task = training(roles, clean_up="keep", env={"TF_CPP_MIN_LOG_LEVEL": "3"})
    assert task.execute(CONTEXT) == "done"
    assert (tmp_path / "result").read_text().startswith("10 on /job:ps/")
    assert pods(core) == ["chief Succeeded", "worker Succeeded"]
    core.delete_collection_namespaced_pod("default")
    core.delete_collection_namespaced_service("default")


def test_an_evaluator_that_dies_ends_the_training_and_is_named(core: CoreV1Api) -> None:
    broken = ("python", "-c", "raise SystemExit('no such metric')")
    task = training({"chief": {"command": IDLE}, "evaluator": {"command": broken}})
    with pytest.raises(AirflowFailException, match=r"^evaluator 0 on .*exit code 1: no such metric"):
        task.execute(CONTEXT)
    assert pods(core) == []


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        pytest.param({"workers": 2}, "workers and roles both say how many", id="two ways to say how many"),
        pytest.param(
            {"roles": {"worker": {"pod_options": {"tolerance": []}}}},
            r"train.roles.worker.pod_options: unknown parameter 'tolerance' \(did you mean 'tolerations'\?\)",
            id="a pod option that does not exist",
        ),
        pytest.param(
            {"pod_options": {"node_selectr": {}}},
            r"pod_options: unknown parameter 'node_selectr' \(did you mean 'node_selector'\?\); valid ones: active_d",
            id="one for all pods",
        ),
        pytest.param(
            {"roles": {"chief": {}, "evaluator": {}}}, "roles.evaluator: `python -m trainer`", id="our trainer"
        ),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_created(
    arguments: dict[str, Any], told: str, core: CoreV1Api
) -> None:
    given = {"roles": {"worker": {"replicas": "2"}}} | arguments
    with pytest.raises(Exception, match=told):
        training(**given).execute(CONTEXT)
    assert core.list_namespaced_service("default").items == []


def test_numbers_of_pods_may_be_templates(core: CoreV1Api) -> None:
    task = training({"chief": {}, "worker": {"replicas": "2"}})
    assert [str(pod.member) for pod in task.plan(CONTEXT).workers] == ["chief 0", "worker 0", "worker 1"]
