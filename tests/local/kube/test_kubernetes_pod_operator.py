"""Airflow's own KubernetesPodOperator, its hook and its pod manager work against the one-machine API unchanged."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
import yaml
from airflow.providers.cncf.kubernetes.callbacks import KubernetesPodOperatorCallback
from airflow.providers.cncf.kubernetes.hooks.kubernetes import AsyncKubernetesHook
from airflow.providers.cncf.kubernetes.operators.pod import KubernetesPodOperator
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowException, TaskDeferred
from kubernetes.client import V1ResourceRequirements

from tests.contract.cluster_api import PYTHON, ClusterApi, unique
from tests.local.kube.running_server import IMAGE


def operator(kube: ClusterApi, code: str, **options: Any) -> KubernetesPodOperator:
    """An operator that runs `code`, led to the server by a kubeconfig file."""
    return KubernetesPodOperator(
        task_id="task",
        name=unique("kpo"),
        namespace="default",
        image=IMAGE,
        cmds=[*PYTHON, code],
        config_file=str(kube.kubeconfig),
        kubernetes_conn_id=None,
        in_cluster=False,
        durable=False,
        random_name_suffix=False,
        **options,
    )


def context() -> Any:
    """As much of a task's context as the operator looks at."""
    pushed: dict[str, Any] = {}
    ti = SimpleNamespace(
        dag_id="dag",
        task_id="task",
        run_id="manual__1",
        map_index=-1,
        try_number=1,
        start_date=datetime.now(UTC),
        xcom_push=lambda key, value: pushed.update({key: value}),
    )
    return {"ti": ti, "dag": DAG("dag", schedule=None), "run_id": ti.run_id, "pushed": pushed}


class Heard(KubernetesPodOperatorCallback):
    """What the operator reads of the log, line by line."""

    lines: ClassVar[list[str]] = []

    @staticmethod
    def progress_callback(*, line: str, **_: Any) -> None:
        Heard.lines.append(line)


def test_a_pod_runs_its_log_is_read_and_it_is_deleted(kube: ClusterApi) -> None:
    given = context()
    task = operator(
        kube, "import os; print('hello from', os.environ['WHO'])", env_vars={"WHO": "a pod"}, callbacks=Heard
    )

    task.execute(given)

    assert [line for line in Heard.lines if "hello from a pod" in line]
    assert given["pushed"]["pod_namespace"] == "default"
    assert kube.core.list_namespaced_pod("default", label_selector="task_id=task").items == []


def test_a_failure_names_the_exit_code(kube: ClusterApi) -> None:
    with pytest.raises(AirflowException, match=r"exit_code': 3"):
        operator(kube, "raise SystemExit(3)", on_finish_action="keep_pod").execute(context())


def test_a_pod_that_runs_out_of_memory_is_reported(kube: ClusterApi) -> None:
    code = "import time; hoard = bytearray(400 << 20); hoard[::4096] = b'x' * 102400; time.sleep(60)"
    task = operator(kube, code, container_resources=V1ResourceRequirements(limits={"memory": "128Mi"}))

    with pytest.raises(AirflowException, match="OOMKilled"):
        task.execute(context())


def test_an_image_that_does_not_exist_fails_the_start(kube: ClusterApi) -> None:
    task = operator(kube, "pass", startup_timeout_seconds=2, startup_check_interval_seconds=1)
    task.image = "typo:1"

    with pytest.raises(AirflowException, match=r"typo:1|ErrImagePull|ImagePullBackOff"):
        task.execute(context())


def test_a_killed_task_deletes_its_pod(kube: ClusterApi) -> None:
    task, given = operator(kube, "import time; time.sleep(600)", termination_grace_period=1), context()
    task.pod = task.get_or_create_pod(task.build_pod_request_obj(given), given)
    kube.running(task.pod.metadata.name)

    task.on_kill()

    kube.gone(task.pod.metadata.name)


async def test_a_deferred_pod_is_followed_by_the_trigger(kube: ClusterApi) -> None:
    """The operator defers; its trigger, with the asynchronous hook, sees the pod to its end."""
    with pytest.raises(TaskDeferred) as deferred:
        operator(kube, "print('hello')", deferrable=True, poll_interval=0.2).execute(context())

    event = await anext(deferred.value.trigger.run())

    assert event.payload["status"] == "success"


async def test_the_asynchronous_hook_reads_pods_and_logs(kube: ClusterApi) -> None:
    name = kube.run("print('hello')").metadata.name
    hook = AsyncKubernetesHook(conn_id=None, in_cluster=False, config_dict=yaml.safe_load(kube.kubeconfig.read_text()))

    pod = await hook.get_pod(name, "default")
    lines = await hook.read_logs(name, "default")

    assert pod.status.phase == "Succeeded"
    assert "hello" in "\n".join(lines)
