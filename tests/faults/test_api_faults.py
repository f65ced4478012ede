"""The Kubernetes API is away, slow, overloaded or forgetful: a healthy gang outlives it, and is created exactly once.

A real API behind a proxy; every pod is a real process, and goes on whatever becomes of the API.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from typing import Any

import pytest
from kubernetes.client import CoreV1Api
from tenacity import stop_before_delay

from lockstep import kubernetes_cluster
from lockstep.connected_gang import ConnectedGang
from lockstep.errors import ClusterUnavailable, GangFailed, NotPermitted
from lockstep.kubernetes_cluster import KubernetesCluster
from lockstep.running_gang import RunningGang
from lockstep.supervisor import launch, leave, supervise
from tests.e2e.waiting import awaited
from tests.faults.left_behind import left_behind
from tests.faults.obedient_gang import DONE, ObedientGang
from tests.faults.unreliable_api import WELL, Call, Fault, Faults, UnreliableApi
from tests.faults.watched_gang import CLOCK, ended, launched

AWAY_S = 20.0
BRIEFLY_AWAY_S = 2.0


async def succeeds(running: RunningGang, cluster: KubernetesCluster) -> None:
    async with asyncio.timeout(60):
        assert (await supervise(running, cluster, CLOCK)).uids == running.uids
        await leave(running, cluster)


def created_once(api: UnreliableApi, running: RunningGang) -> bool:
    """One Service, and one pod a worker, whatever was asked for and how often."""
    pods = {running.pod(rank) for rank in range(running.workers)}
    return api.created == dict.fromkeys({running.gang.name, *pods}, 1)


async def until_watched(api: UnreliableApi, before: int) -> None:
    """More often than before."""
    await asyncio.to_thread(awaited, lambda: api.kinds()["watch pods"] > before, what="the watch", timeout_s=30)


def every_other(fault: Fault) -> Faults:
    """The first call of each kind goes wrong, the second well, and so on."""
    return lambda call: fault if call.number % 2 else WELL


def first_lost(call: Call) -> Fault:
    return Fault(lose_answer=call.number == 1)


def watches_cut(after_s: float) -> Faults:
    return lambda call: Fault(cut_after_s=after_s) if call.kind == "watch pods" else WELL


@pytest.mark.parametrize(
    "faults",
    [
        pytest.param(every_other(Fault(refuse=429)), id="429, and to be asked again in a second"),
        pytest.param(every_other(Fault(refuse=500)), id="500"),
        pytest.param(first_lost, id="the answer is lost, though all was done"),
        pytest.param(lambda call: Fault(wait_s=0.5), id="every answer takes half a second more"),
        pytest.param(watches_cut(0.2), id="the watch is cut again and again"),
    ],
)
async def test_a_gang_is_launched_once_trains_and_is_removed(
    faults: Faults, api: UnreliableApi, gang: ObedientGang, cluster: KubernetesCluster, core: CoreV1Api
) -> None:
    api.faults = faults
    running = await launch(gang.plan(3), cluster, CLOCK)
    assert [api.created[running.pod(rank)] for rank in range(3)] == [1, 1, 1]
    gang.order_all(3, "time.sleep(1)")
    await succeeds(running, cluster)
    assert left_behind(core, gang) == []


async def test_a_watch_that_is_cut_every_moment_is_resumed_and_nothing_is_listed_again(
    api: UnreliableApi, gang: ObedientGang, cluster: KubernetesCluster
) -> None:
    running = await launched(gang.plan(), cluster)
    api.forget()
    api.faults = watches_cut(0.2)
    supervising = asyncio.create_task(succeeds(running, cluster))
    await until_watched(api, 3)
    gang.order_all()
    await supervising
    assert api.kinds()["list pods"] == 1


async def test_a_failure_while_the_api_is_away_is_told_when_it_is_back(
    api: UnreliableApi, gang: ObedientGang, cluster: KubernetesCluster
) -> None:
    running = await launched(gang.plan(), cluster)
    before = api.kinds()["watch pods"]
    supervising = asyncio.create_task(ended(running, cluster))
    await until_watched(api, before)
    with api.away():
        gang.order(1, "raise SystemExit(1)")
        await asyncio.to_thread(time.sleep, AWAY_S)
        assert not supervising.done()
    failure = await supervising
    assert isinstance(failure, GangFailed)
    assert "worker 1 on lockstep-local" in str(failure)
    assert created_once(api, running)


async def test_a_success_while_the_api_is_away_is_seen_when_it_is_back(
    api: UnreliableApi, gang: ObedientGang, cluster: KubernetesCluster
) -> None:
    running = await launched(gang.plan(), cluster)
    before = api.kinds()["watch pods"]
    supervising = asyncio.create_task(succeeds(running, cluster))
    await until_watched(api, before)
    with api.away():
        gang.order_all()
        await asyncio.to_thread(time.sleep, BRIEFLY_AWAY_S)
    await supervising
    assert created_once(api, running)


async def test_a_launch_waits_for_an_api_that_is_away(
    api: UnreliableApi, gang: ObedientGang, cluster: KubernetesCluster
) -> None:
    with api.away():
        launching = asyncio.create_task(launch(gang.plan(), cluster, CLOCK))
        await asyncio.to_thread(time.sleep, BRIEFLY_AWAY_S)
    running = await launching
    gang.order_all()
    await succeeds(running, cluster)
    assert created_once(api, running)


async def test_an_api_that_goes_away_in_the_launch_creates_nothing_twice(
    api: UnreliableApi, gang: ObedientGang, cluster: KubernetesCluster
) -> None:
    """Some pods are there, and of others nobody knows."""
    held = api.hold("create pods", after=1, answered=True)
    launching = asyncio.create_task(launch(gang.plan(4), cluster, CLOCK))
    await asyncio.to_thread(held.await_reached)
    with api.away():
        held.released.set()
        await asyncio.to_thread(time.sleep, BRIEFLY_AWAY_S)
    running = await launching
    gang.order_all(4)
    await succeeds(running, cluster)
    assert created_once(api, running)


async def test_a_clean_up_goes_on_when_the_api_is_back(
    api: UnreliableApi, gang: ObedientGang, cluster: KubernetesCluster
) -> None:
    running = await launched(gang.plan(), cluster)
    held = api.hold("delete pods")
    supervising = asyncio.create_task(ended(running, cluster))
    gang.order(0, "raise SystemExit(1)")
    await asyncio.to_thread(held.await_reached)
    with api.away():
        held.released.set()
        await asyncio.to_thread(time.sleep, BRIEFLY_AWAY_S)
    assert isinstance(await supervising, GangFailed)


async def test_an_api_that_does_not_come_back_ends_the_watching_and_says_so(
    api: UnreliableApi, gang: ObedientGang, cluster: KubernetesCluster, monkeypatch: pytest.MonkeyPatch, core: CoreV1Api
) -> None:
    """The pods go on: nobody could be asked to end them. The error says that, too; the sweep will find them."""
    monkeypatch.setattr(kubernetes_cluster, "stop_before_delay", lambda _: stop_before_delay(1.0))
    running = await launched(gang.plan(), cluster)
    api.faults = lambda call: Fault(refuse=503)
    with pytest.raises(ClusterUnavailable, match="says the test: 503") as caught:
        await supervise(running, cluster, CLOCK)
    assert "and the clean-up failed" in caught.value.told
    assert len(gang.processes()) == 2
    core.delete_namespaced_service(running.gang.name, "default")


@pytest.mark.parametrize(
    "moment",
    [
        pytest.param("launch", id="before the launch"),
        pytest.param("watch", id="while it trains, and the watch is cut"),
        pytest.param("clean-up", id="before the clean-up"),
    ],
)
async def test_credentials_that_expire_are_read_anew(
    moment: str, api: UnreliableApi, gang: ObedientGang, cluster: KubernetesCluster
) -> None:
    await cluster.pods(gang.gang)
    expire: Callable[[str], Any] = lambda now: api.expire_token() if now == moment else None  # noqa: E731
    expire("launch")
    running = await launched(gang.plan(), cluster)
    before = api.kinds()["watch pods"]
    supervising = asyncio.create_task(supervise(running, cluster, CLOCK))
    await until_watched(api, before)
    expire("watch")
    api.cut()
    await until_watched(api, before + 1)
    gang.order_all(code=DONE)
    assert (await supervising).uids == running.uids
    expire("clean-up")
    await leave(running, cluster)
    assert created_once(api, running)


async def test_credentials_that_stay_refused_fail_the_launch_at_once_with_nothing_left(
    api: UnreliableApi, gang: ObedientGang, cluster: KubernetesCluster
) -> None:
    api.faults = lambda call: Fault(refuse=401)
    with pytest.raises(NotPermitted, match="renew the credentials of the Airflow connection"):
        await launch(gang.plan(), cluster, CLOCK)
    assert api.created == {}


async def test_a_gang_outlives_a_moment_in_which_the_connection_cannot_be_read(
    gang: ObedientGang, cluster: KubernetesCluster, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A triggerer starts while the secrets backend is away; Airflow calls the connection not defined."""
    running = await launched(gang.plan(), cluster)
    known = os.environ["AIRFLOW_CONN_KUBERNETES_DEFAULT"]
    monkeypatch.delenv("AIRFLOW_CONN_KUBERNETES_DEFAULT")
    connected = ConnectedGang(conn_id="kubernetes_default", namespace="default")
    supervising = asyncio.create_task(connected.supervise(running))
    told = "Trying again: Airflow connection 'kubernetes_default'"
    await asyncio.to_thread(awaited, lambda: told in caplog.text, what="a second look", timeout_s=30)
    monkeypatch.setenv("AIRFLOW_CONN_KUBERNETES_DEFAULT", known)
    gang.order_all()
    assert (await supervising).uids == running.uids
    await leave(running, cluster)
