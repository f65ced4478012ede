"""The process of a task is killed (SIGKILL) at each step of a launch and of a clean-up; then comes the next try.

A gang that is whole and well is taken over, pod by pod; of anything else nothing is left before another is launched.
`gang` sees that no two workers of one rank ever ran at once, and that nothing is left.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from typing import Any

import pytest
import yaml
from airflow.sdk.exceptions import TaskDeferred
from kubernetes.client import CoreV1Api

from lockstep.kubernetes_cluster import KubernetesCluster
from lockstep.parsing import parse
from lockstep.running_gang import RunningGang
from lockstep.supervisor import leave, supervise
from tests.e2e.waiting import awaited
from tests.faults.airflow_worker import SETTINGS, airflow_worker, before_defer, run_next_try
from tests.faults.left_behind import uids
from tests.faults.obedient_gang import DONE, ObedientGang
from tests.faults.unreliable_api import WELL, Call, Fault, UnreliableApi
from tests.faults.watched_gang import CLOCK
from tests.local.kube.running_server import RunningServer

WORKERS = 3
WAIT_S = 60


@dataclass(frozen=True, slots=True)
class Step:
    """Once `after` calls of this kind have ended, the next one never does; with `answered`, the API has heard it."""

    kind: str
    after: int = 0
    answered: bool = False


BEFORE_SERVICE = pytest.param(Step("create services"), 0, id="before the Service")
AFTER_SERVICE = pytest.param(Step("create services", answered=True), 0, id="with a Service that it does not know of")
BEFORE_PODS = pytest.param(Step("create pods"), 0, id="between the Service and the first pod")
AFTER_ONE = pytest.param(Step("create pods", after=1), 1, id="between the first pod and the second")
AFTER_TWO = pytest.param(Step("create pods", after=2), 2, id="between the second pod and the last")
AFTER_ALL = pytest.param(Step("create pods", after=2, answered=True), 3, id="with all pods, one of them unknown")
DELETIONS = [
    pytest.param(Step("delete pods"), id="before the pods are deleted"),
    pytest.param(Step("delete pods", answered=True), id="between the pods' deletion and the Service's"),
    pytest.param(Step("delete services", answered=True), id="after the Service's deletion"),
]


@pytest.fixture(autouse=True)
def deployment(api: UnreliableApi, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in SETTINGS.items():
        monkeypatch.setenv(f"AIRFLOW__LOCKSTEP__{name}", value)


def killed_at(step: Step, worker: BaseProcess, api: UnreliableApi) -> None:
    hold = api.hold(step.kind, after=step.after, answered=step.answered)
    hold.await_reached()
    worker.kill()
    worker.join(WAIT_S)
    hold.released.set()
    api.forget()


def next_try(gang: ObedientGang) -> RunningGang:
    """What it defers with."""
    with pytest.raises(TaskDeferred) as deferred:
        run_next_try(gang)
    return parse(RunningGang, deferred.value.trigger.running, what="trigger")  # type: ignore[attr-defined]


def pods_created(api: UnreliableApi) -> int:
    return sum(count for name, count in api.created.items() if re.search(r"-w\d+$", name))


def all_run(gang: ObedientGang) -> None:
    awaited(lambda: len(gang.processes()) == WORKERS, what="all workers", timeout_s=WAIT_S)


def succeeds(running: RunningGang, gang: ObedientGang) -> None:
    gang.order_all(WORKERS, attempt=running.attempt)
    asyncio.run(_watched_to_its_success(running))


async def _watched_to_its_success(running: RunningGang) -> None:
    cluster = KubernetesCluster(conn_id="kubernetes_default", namespace="default")
    async with cluster.connected(), asyncio.timeout(WAIT_S):
        assert (await supervise(running, cluster, CLOCK)).uids == running.uids
        await leave(running, cluster)


@pytest.mark.parametrize(
    ("step", "pods"), [BEFORE_SERVICE, AFTER_SERVICE, BEFORE_PODS, AFTER_ONE, AFTER_TWO, AFTER_ALL]
)
def test_killed_in_the_launch(step: Step, pods: int, api: UnreliableApi, gang: ObedientGang, core: CoreV1Api) -> None:
    with airflow_worker(gang) as worker:
        killed_at(step, worker, api)
    before = uids(core, gang)
    assert len(before) == pods
    running = next_try(gang)
    assert uids(core, gang) == list(running.uids)
    if pods == WORKERS:
        assert (list(running.uids), api.created) == (before, {})
    else:
        assert not set(before) & set(running.uids)
        assert api.created == {running.gang.name: 1} | {running.pod(rank): 1 for rank in range(WORKERS)}
        assert running.attempt == (2 if pods else 1)
    succeeds(running, gang)


def test_killed_before_the_defer(api: UnreliableApi, gang: ObedientGang, core: CoreV1Api) -> None:
    """Its pods go on training; the next try finds them at it."""
    with airflow_worker(gang) as worker:
        awaited(before_defer(gang).exists, what="the end of the launch", timeout_s=WAIT_S)
        all_run(gang)
        worker.kill()
        worker.join(WAIT_S)
    before = uids(core, gang)
    running = next_try(gang)
    assert list(running.uids) == before
    assert api.kinds()["create pods"] == WORKERS
    succeeds(running, gang)


def test_what_a_deferral_stores_leads_nobody_into_the_cluster(
    gang: ObedientGang, core: CoreV1Api, fault_server: RunningServer
) -> None:
    """The trigger's row names a connection, and holds neither token nor certificate (apache/airflow#34644)."""
    with pytest.raises(TaskDeferred) as deferred:
        run_next_try(gang)
    stored = repr((deferred.value.trigger.serialize(), deferred.value.kwargs))
    kubeconfig = yaml.safe_load(fault_server.kubeconfig.read_text())
    assert "kubernetes_default" in stored
    assert not [word for word in secrets_in(kubeconfig) if word in stored]
    succeeds(parse(RunningGang, deferred.value.trigger.running, what="trigger"), gang)  # type: ignore[attr-defined]


def secrets_in(kubeconfig: dict[str, Any]) -> list[str]:
    """And the words that would introduce them."""
    cluster, user = kubeconfig["clusters"][0]["cluster"], kubeconfig["users"][0]["user"]
    return [user["token"], cluster["certificate-authority-data"], cluster["server"], "token", "users", "certificate"]


def test_killed_while_it_watches(api: UnreliableApi, gang: ObedientGang, core: CoreV1Api) -> None:
    """With `deferrable=False`."""
    with airflow_worker(gang, deferrable=False) as worker:
        awaited(lambda: api.kinds()["watch pods"], what="the watch", timeout_s=WAIT_S)
        all_run(gang)
        worker.kill()
        worker.join(WAIT_S)
    before = uids(core, gang)
    running = next_try(gang)
    assert list(running.uids) == before
    succeeds(running, gang)


@pytest.mark.parametrize(
    "step", [*DELETIONS, pytest.param(Step("list pods", after=1), id="while it waits for the pods' end")]
)
def test_killed_in_the_clean_up_after_a_failure(
    step: Step, api: UnreliableApi, gang: ObedientGang, core: CoreV1Api
) -> None:
    with airflow_worker(gang, deferrable=False) as worker:
        awaited(lambda: api.kinds()["watch pods"], what="the watch", timeout_s=WAIT_S)
        all_run(gang)
        before = uids(core, gang)
        gang.order(1, "raise SystemExit(143)")
        killed_at(step, worker, api)
    gang.forget_orders()
    running = next_try(gang)
    assert not set(before) & set(running.uids)
    assert uids(core, gang) == list(running.uids)
    assert pods_created(api) == WORKERS
    succeeds(running, gang)


@pytest.mark.parametrize("step", DELETIONS)
def test_killed_in_the_clean_up_after_a_success(
    step: Step, api: UnreliableApi, gang: ObedientGang, core: CoreV1Api
) -> None:
    """As long as the proof is there it is taken; without it, success is not believed, and the training runs again."""
    gang.order_all(WORKERS, DONE)
    with airflow_worker(gang, deferrable=False) as worker:
        killed_at(step, worker, api)
    before = uids(core, gang)
    running = next_try(gang)
    assert list(running.uids) == before if before else pods_created(api) == WORKERS
    succeeds(running, gang)


@pytest.mark.parametrize("step", DELETIONS)
def test_killed_in_the_clean_up_of_a_task_that_was_told_to_stop(
    step: Step, api: UnreliableApi, gang: ObedientGang, core: CoreV1Api
) -> None:
    """As Airflow ends a task: SIGTERM, and SIGKILL to who does not hurry."""
    with airflow_worker(gang, deferrable=False) as worker:
        awaited(lambda: api.kinds()["watch pods"], what="the watch", timeout_s=WAIT_S)
        all_run(gang)
        before = uids(core, gang)
        assert worker.pid is not None
        os.kill(worker.pid, signal.SIGTERM)
        killed_at(step, worker, api)
    running = next_try(gang)
    taken_over = step == Step("delete pods")
    assert (list(running.uids) == before) is taken_over
    assert pods_created(api) == (0 if taken_over else WORKERS)
    assert uids(core, gang) == list(running.uids)
    succeeds(running, gang)


@pytest.mark.parametrize("step", DELETIONS)
def test_killed_in_the_clean_up_of_a_launch_that_was_refused(
    step: Step, api: UnreliableApi, gang: ObedientGang, core: CoreV1Api
) -> None:
    """Two pods were created, and the third is one too many for a quota."""
    api.faults = lambda call: Fault(refuse=403) if call == Call(kind="create pods", number=WORKERS) else WELL
    with airflow_worker(gang) as worker:
        killed_at(step, worker, api)
    running = next_try(gang)
    assert uids(core, gang) == list(running.uids)
    assert pods_created(api) == WORKERS
    succeeds(running, gang)


@pytest.mark.parametrize("step", DELETIONS)
def test_killed_while_it_removes_what_a_killed_one_left(
    step: Step, api: UnreliableApi, gang: ObedientGang, core: CoreV1Api
) -> None:
    with airflow_worker(gang) as worker:
        killed_at(Step("create pods", after=2), worker, api)
    with airflow_worker(gang) as worker:
        killed_at(step, worker, api)
    running = next_try(gang)
    assert uids(core, gang) == list(running.uids)
    assert pods_created(api) == WORKERS
    succeeds(running, gang)
