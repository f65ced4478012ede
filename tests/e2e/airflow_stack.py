"""The one-machine stack with Airflow's processes: what runs there, what Airflow says of it, and a person's orders."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

from kubernetes.client import CoreV1Api
from kubernetes.config import new_client_from_config

from lockstep.local import service_process
from lockstep.local.airflow_api import FINISHED, AirflowApi, accepted, run_path
from lockstep.local.stack import Stack
from lockstep.local.stack_state import StackState
from lockstep.names import LABEL_GANG, GangId, gang_selector
from tests.e2e.waiting import awaited

RUN_TIMEOUT_S = 600
KILL_TIMEOUT_S = 30


def kill(stack: Stack, service: str) -> None:
    """By SIGKILL; it is gone when this returns."""
    process = StackState.read(stack.layout.state_file).processes[service].living()
    assert process is not None
    process.kill()
    service_process.await_end([process], KILL_TIMEOUT_S)


@contextmanager
def standing_still(stack: Stack, service: str) -> Iterator[None]:
    pid = StackState.read(stack.layout.state_file).processes[service].pid
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        go_on(stack, service)


def go_on(stack: Stack, service: str) -> None:
    """Whatever had stopped it."""
    os.kill(StackState.read(stack.layout.state_file).processes[service].pid, signal.SIGCONT)


def pods_of(stack: Stack, gang: GangId | None = None) -> dict[str, str]:
    """UIDs and phases of the pods that are there."""
    selector = gang_selector(gang) if gang else None
    with new_client_from_config(str(stack.layout.kubeconfig)) as client:
        pods = CoreV1Api(client).list_namespaced_pod("default", label_selector=selector).items
        return {pod.metadata.uid: pod.status.phase for pod in pods}


def services_of(stack: Stack) -> list[str]:
    with new_client_from_config(str(stack.layout.kubeconfig)) as client:
        services = CoreV1Api(client).list_namespaced_service("default", label_selector=LABEL_GANG).items
        return [service.metadata.name for service in services]


def await_end(api: AirflowApi, dag_id: str, run_id: str) -> None:
    awaited(lambda: api.run_state(dag_id, run_id) in FINISHED, what="the run's end", timeout_s=RUN_TIMEOUT_S)


def states_of(api: AirflowApi, dag_id: str, run_id: str) -> dict[str, str | None]:
    return {task.task_id: task.state for task in api.tasks(dag_id, run_id)}


def mark(api: AirflowApi, dag_id: str, run_id: str, task_id: str, state: str) -> None:
    """Mark a task success or failed, as a person does in the UI."""
    path = f"{run_path(dag_id, run_id)}/taskInstances/{task_id}"
    accepted(api._client.patch(path, json={"new_state": state}))


def clear(api: AirflowApi, dag_id: str, run_id: str, task_id: str) -> None:
    """Let a task run again, as a person does in the UI."""
    asked = {"dag_run_id": run_id, "task_ids": [task_id], "dry_run": False, "only_failed": False}
    accepted(api._client.post(f"/api/v2/dags/{dag_id}/clearTaskInstances", json=asked))
