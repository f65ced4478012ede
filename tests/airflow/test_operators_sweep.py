"""The sweep asks Airflow itself what became of each gang's task, and a cluster that answers for its pods."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException
from kubernetes.client import CoreV1Api
from kubernetes.config import new_client_from_config

from lockstep.names import LABEL_GANG, LABEL_INSTALLATION
from lockstep.operators.sweep import SweepGangsOperator
from tests.airflow.task_context import task_context
from tests.local.kube.running_server import IMAGE

DAG = """
import asyncio
from airflow.sdk import DAG, get_current_context, task
from lockstep.kubernetes_cluster import KubernetesCluster
from lockstep.names import GangId
from lockstep.operators.sweep import SweepGangsOperator
from lockstep.parsing import parse
from lockstep.pod_plan import plan_gang
from lockstep.supervisor import launch
from lockstep.system_clock import SystemClock
from lockstep.training_spec import TrainingSpec

SPEC = parse(TrainingSpec, {
    "image": "IMAGE",
    "workers": 2,
    "run_directory": "gs://bucket/runs/1",
    "training": {"job": "a:B", "train_data": "gs://bucket/*", "global_batch_size": 1},
    "command": ("python", "-c", "import time; time.sleep(600)"),
}, what="spec")

async def launched(gangs):
    cluster = KubernetesCluster(conn_id="kubernetes_default", namespace="default")
    async with cluster.connected():
        for gang in gangs:
            await launch(plan_gang(SPEC, gang, attempt=1), cluster, SystemClock())

with DAG("swept", schedule=None):
    @task
    def leave_gangs():
        ours = {"dag_id": "swept", "run_id": get_current_context()["run_id"], "installation": "swept"}
        gangs = {
            "failed": GangId(**ours, task_id="ends", map_index=0),
            "succeeded": GangId(**ours, task_id="ends", map_index=1),
            "of the future": GangId(**ours, task_id="later"),
            "unknown": GangId(**(ours | {"run_id": "manual__elsewhere"}), task_id="later"),
            "neighbour's": GangId(**(ours | {"installation": "neighbour"}), task_id="ends", map_index=0),
        }
        asyncio.run(launched(gangs.values()))
        return {gang.name: name for name, gang in gangs.items()}

    @task(trigger_rule="all_done")
    def ends(number):
        assert number

    @task
    def later():
        pass

    left = leave_gangs()
    sweep = SweepGangsOperator(task_id="sweep", grace_s=1, trigger_rule="all_done")
    left >> ends.expand(number=[0, 1]) >> sweep >> later()
""".replace("IMAGE", IMAGE)

RunDag = Callable[..., tuple[list[dict[str, Any]], str]]


@pytest.fixture
def core(kubeconfig: Path) -> Iterator[CoreV1Api]:
    """What the test leaves standing is removed after it."""
    with new_client_from_config(str(kubeconfig)) as client:
        core = CoreV1Api(client)
        yield core
        for service in core.list_namespaced_service("default", label_selector=LABEL_INSTALLATION).items:
            core.delete_namespaced_service(service.metadata.name, "default")


def test_gangs_go_with_their_task_and_only_with_it(run_dag: RunDag, kubeconfig: Path, core: CoreV1Api) -> None:
    """Two mapped instances are over, one task is still to come, one run is unknown, and one gang is a neighbour's."""
    connection = {"conn_type": "kubernetes", "extra": {"kube_config_path": str(kubeconfig)}}
    (run,), log = run_dag(
        DAG,
        {},
        AIRFLOW_CONN_KUBERNETES_DEFAULT=json.dumps(connection),
        AIRFLOW__LOCKSTEP__INSTALLATION="swept",
    )
    assert run["tasks"]["sweep"] == "success", log[-5000:]
    names = run["xcoms"]["leave_gangs.return_value"]
    swept = {fate: {names[each] for each in each_of} for fate, each_of in run["xcoms"]["sweep.return_value"].items()}
    assert swept == {
        "removed": {"failed", "succeeded"},
        "ended": set(),
        "kept": {"of the future"},
        "left": {"unknown"},
    }
    found = core.list_namespaced_pod("default", label_selector=f"{LABEL_INSTALLATION} in (swept,neighbour)").items
    living = [names[pod.metadata.labels[LABEL_GANG]] for pod in found if pod.metadata.deletion_timestamp is None]
    assert sorted(living) == ["neighbour's"] * 2 + ["of the future"] * 2 + ["unknown"] * 2
    assert "this Airflow knows no swept.later of manual__elsewhere" in log


def test_a_cluster_that_cannot_be_reached_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AIRFLOW_CONN_NOWHERE", raising=False)
    with pytest.raises(AirflowFailException, match="Airflow connection 'nowhere' does not lead to a Kubernetes API"):
        SweepGangsOperator(task_id="sweep", kubernetes_conn_id="nowhere").execute(task_context())


def test_an_installation_whose_name_is_no_label_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__LOCKSTEP__INSTALLATION", "our airflow")
    with pytest.raises(AirflowFailException, match=r"section \[lockstep\]\.installation: string should match pattern"):
        SweepGangsOperator(task_id="sweep").execute(task_context())
