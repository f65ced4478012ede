"""A task that Airflow tells to stop takes its gang along, whatever it is doing at that moment."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowTaskTimeout, TaskDeferred
from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance
from kubernetes.client import CoreV1Api
from kubernetes.config import new_client_from_config
from kubernetes.watch import Watch

from lockstep.airflow_state import goes_on
from lockstep.connected_gang import ConnectedGang
from lockstep.names import GangId, gang_selector
from lockstep.operators.gang import GangOperator, gang_of
from lockstep.training_spec import TrainingSpec
from tests.airflow.kubernetes_connection import connect
from tests.airflow.task_context import task_context
from tests.local.kube.running_server import IMAGE

WAIT_S = 60
CONTEXT = task_context(task_id="gang")


class SleepingGang(GangOperator):
    """Two workers that stay until they are told to go."""

    def spec(self, context: Any) -> TrainingSpec:
        training = {"job": "a:B", "train_data": "gs://bucket/*", "global_batch_size": 1}
        return self._spec(
            context, workers=2, training=training, command=("python", "-c", "import time; time.sleep(600)")
        )


@pytest.fixture
def core(kubeconfig: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[CoreV1Api]:
    connect(monkeypatch, kubeconfig)
    monkeypatch.setenv("AIRFLOW__LOCKSTEP__IMAGE", IMAGE)
    monkeypatch.setenv("AIRFLOW__LOCKSTEP__RENDEZVOUS", "loopback")
    monkeypatch.setenv("AIRFLOW__LOCKSTEP__RUN_ROOT", "gs://bucket/runs")
    with new_client_from_config(str(kubeconfig)) as client:
        yield CoreV1Api(client)


@pytest.fixture
def gang() -> Iterator[SleepingGang]:
    """Stopped by SIGTERM as Airflow's task runner stops a task: `on_kill` is called in the signal's handler."""
    operator = SleepingGang(task_id="gang", deferrable=False, timeouts={"grace_s": 1})
    before = signal.signal(signal.SIGTERM, lambda *_: operator.on_kill())
    yield operator
    signal.signal(signal.SIGTERM, before)


def events(core: CoreV1Api) -> Iterator[Any]:
    options = {"label_selector": gang_selector(gang_of(CONTEXT)), "timeout_seconds": WAIT_S}
    yield from Watch().stream(core.list_namespaced_pod, "default", **options)


def once_running(core: CoreV1Api, then: Any) -> threading.Thread:
    """Call `then` in a thread as soon as both workers run."""

    def wait() -> None:
        running: set[str] = set()
        for event in events(core):
            if event["object"].status.phase == "Running":
                running.add(event["object"].metadata.name)
            if len(running) == 2:
                then()
                return

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


def left_of_the_gang(core: CoreV1Api) -> list[str]:
    """Names of pods that nobody deletes; those on their way out are waited for."""
    selector = gang_selector(gang_of(CONTEXT))
    pods = core.list_namespaced_pod("default", label_selector=selector)
    going = {pod.metadata.name for pod in pods.items if pod.metadata.deletion_timestamp}
    left = [pod.metadata.name for pod in pods.items if pod.metadata.name not in going]
    options = {"label_selector": selector, "timeout_seconds": WAIT_S}
    version = pods.metadata.resource_version
    watch = Watch().stream(core.list_namespaced_pod, "default", resource_version=version, **options)
    while going:
        event = next(watch)
        if event["type"] == "DELETED":
            going.discard(event["object"].metadata.name)
    return left


def test_sigterm_while_the_gang_trains_ends_both(core: CoreV1Api, gang: SleepingGang) -> None:
    """The handler runs in the midst of the event loop that watches the gang; apache/airflow#73006 ended in success."""
    stopper = once_running(core, lambda: os.kill(os.getpid(), signal.SIGTERM))
    with pytest.raises(AirflowException, match="Airflow told the task to stop"):
        gang.run_gang(gang.plan(CONTEXT), CONTEXT)
    stopper.join()
    assert left_of_the_gang(core) == []


def test_an_airflow_worker_that_is_shut_down_leaves_the_gang_to_the_next_try(
    core: CoreV1Api, gang: SleepingGang, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Airflow's answer alone tells it from a person's order: to Airflow, the task still runs (#39791)."""
    answers = staticmethod(lambda **_: {"manual__1": {"gang": "running"}})
    monkeypatch.setattr(RuntimeTaskInstance, "get_task_states", answers)
    stopper = once_running(core, lambda: os.kill(os.getpid(), signal.SIGTERM))
    with pytest.raises(AirflowException, match="for the next try to take over"):
        gang.run_gang(gang.plan(CONTEXT), CONTEXT)
    stopper.join()
    before = {pod.metadata.uid for pod in core.list_namespaced_pod("default").items}

    next_try = SleepingGang(task_id="gang", deferrable=True, timeouts={"grace_s": 1})
    with pytest.raises(TaskDeferred) as deferred:
        next_try.run_gang(next_try.plan(CONTEXT), CONTEXT)
    assert set(deferred.value.trigger.running["uids"]) == before

    next_try.on_kill()  # shut down before Airflow has taken the deferral
    pods = core.list_namespaced_pod("default").items
    assert {pod.metadata.uid for pod in pods if not pod.metadata.deletion_timestamp} == before
    try:
        raise AirflowTaskTimeout
    except AirflowTaskTimeout:  # as Airflow's task runner calls it when the time is up
        next_try.on_kill()
    assert left_of_the_gang(core) == []


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        pytest.param("running", True, id="an Airflow worker is shut down"),
        pytest.param("up_for_retry", True, id="Airflow heard nothing of the process for long"),
        pytest.param("deferred", True, id="the next try has taken the gang over"),
        pytest.param("restarting", False, id="a person cleared the task"),
        pytest.param("failed", False, id="a person ended the task"),
        pytest.param("success", False, id="a person called it done"),
    ],
)
def test_who_is_told_to_stop_leaves_the_gang_where_the_task_goes_on(
    state: str, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = staticmethod(lambda **_: {"manual__1": {"gang": state}})
    monkeypatch.setattr(RuntimeTaskInstance, "get_task_states", answers)
    assert goes_on(GangId(dag_id="dag", run_id="manual__1", task_id="gang")) is expected


def test_an_event_loop_that_is_broken_off_takes_the_gang_along(
    core: CoreV1Api, gang: SleepingGang, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So does an execution_timeout that hits it at the wrong moment; Airflow then does not call `on_kill`."""

    async def stop_the_loop(*_: object) -> None:
        asyncio.get_running_loop().stop()
        await asyncio.sleep(WAIT_S)

    monkeypatch.setattr(ConnectedGang, "supervise", stop_the_loop)
    with pytest.raises(RuntimeError, match="Event loop stopped"):
        gang.run_gang(gang.plan(CONTEXT), CONTEXT)
    assert left_of_the_gang(core) == []


def started_now(gang: SleepingGang, *, timeout_s: float) -> Any:
    """The context of a try that begins now, and has an `execution_timeout`."""
    gang.execution_timeout = timedelta(seconds=timeout_s)
    ti = SimpleNamespace(**vars(CONTEXT["ti"]) | {"start_date": datetime.now(UTC)})
    return {**CONTEXT, "ti": ti}


def test_an_execution_timeout_while_the_gang_trains_ends_it(core: CoreV1Api, gang: SleepingGang) -> None:
    """Airflow raises it wherever the event loop is at that moment. Where that is a callback, the loop keeps it to
    itself, and the gang's own deadline ends it."""

    def time_out(*_: object) -> None:
        raise AirflowTaskTimeout

    context = started_now(gang, timeout_s=30)
    before = signal.signal(signal.SIGALRM, time_out)
    stopper = once_running(core, lambda: os.kill(os.getpid(), signal.SIGALRM))
    with pytest.raises((AirflowTaskTimeout, RuntimeError, AirflowException)):
        gang.run_gang(gang.plan(context), context)
    stopper.join()
    signal.signal(signal.SIGALRM, before)
    assert left_of_the_gang(core) == []


def test_an_execution_timeout_that_the_event_loop_keeps_to_itself_ends_the_gang_too(
    core: CoreV1Api, gang: SleepingGang
) -> None:
    """As if Airflow had raised it in a callback: nobody hears of it."""
    context = started_now(gang, timeout_s=5)
    with pytest.raises(AirflowException, match="execution_timeout"):
        gang.run_gang(gang.plan(context), context)
    assert left_of_the_gang(core) == []


def test_sigterm_at_the_end_of_the_launch_leaves_no_pod(
    core: CoreV1Api, gang: SleepingGang, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Too late to cancel anything, too early for anybody else to watch."""
    launch = ConnectedGang.launch

    async def launched(*arguments: Any, **more: Any) -> Any:
        running = await launch(*arguments, **more)
        os.kill(os.getpid(), signal.SIGTERM)
        return running

    monkeypatch.setattr(ConnectedGang, "launch", launched)
    with pytest.raises(AirflowException, match="Airflow told the task to stop"):
        gang.run_gang(gang.plan(CONTEXT), CONTEXT)
    assert left_of_the_gang(core) == []
