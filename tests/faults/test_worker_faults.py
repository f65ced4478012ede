"""One worker of a gang of real processes fails: the error names it, its class and the cause, and the rest is ended.

The real API, the real client and the product's own launch and supervision; `gang` sees that nothing is left.
"""

from __future__ import annotations

import asyncio
import json
import re
import signal
from collections.abc import Callable
from typing import Any

import pytest
from kubernetes.client import CoreV1Api

from lockstep import gang_state
from lockstep.errors import GangFailed, GangLost, GangTimedOut
from lockstep.failure_class import FailureClass
from lockstep.kubernetes_cluster import KubernetesCluster
from lockstep.running_gang import RunningGang
from lockstep.supervisor import launch, leave, supervise
from tests.faults.obedient_gang import ObedientGang
from tests.faults.unreliable_api import UnreliableApi
from tests.faults.watched_gang import CLOCK, ended, launched, said

STALLED = {"schema": 1, "kind": "stall", "message": "no step for 600 s", "step": 812, "phase": "input"}
SAY = "import json, os; pathlib.Path(os.environ['LOCKSTEP_TERMINATION_LOG']).write_text({message!r}); os._exit({code})"
HOARD = "hoard = bytearray(256 << 20); hoard[::4096] = b'x' * (len(hoard) // 4096); time.sleep(60)"
HEARTBEAT = """
import json, socket, threading
config = json.loads(os.environ["TF_CONFIG"])
mine = int(config["task"]["index"])
here, peer = ((place.split(":")[0], int(place.split(":")[1])) for place in (
    config["cluster"]["worker"][mine], config["cluster"]["worker"][1 - mine]))
listener = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
listener.bind(here)
def beat():
    while True:
        listener.sendto(b"alive", peer)
        time.sleep(0.1)
threading.Thread(target=beat, daemon=True).start()
listener.recv(8)  # the peer is there
print("met", flush=True)
listener.settimeout(2)
try:
    while True:
        listener.recv(8)
except TimeoutError:
    os._exit(69)
"""


def say(code: int, message: dict[str, Any]) -> str:
    return SAY.format(message=json.dumps(message), code=code)


@pytest.mark.parametrize(
    ("order", "error", "kind", "told"),
    [
        pytest.param(
            "raise SystemExit(1)", GangFailed, FailureClass.USER, "exit code 1", id="exits 1: its user must mend it"
        ),
        pytest.param(
            "os.kill(os.getpid(), 9)",
            GangLost,
            FailureClass.SUSPECT,
            r"exit code 137: killed \(SIGKILL\)",
            id="killed without a word: anybody may have done it",
        ),
        pytest.param(
            HOARD, GangFailed, FailureClass.RESOURCE, "OOMKilled, limit 96Mi", id="out of memory: the limit is named"
        ),
        pytest.param(
            say(75, STALLED),
            GangLost,
            FailureClass.STALL,
            r"exit code 75: no step for 600 s \(in phase input\) at step 812",
            id="hangs in its input: the watchdog's words, as a stall",
        ),
        pytest.param(
            "raise SystemExit(64)", GangFailed, FailureClass.CONFIG, "exit code 64", id="finds the request wrong"
        ),
        pytest.param("raise SystemExit(143)", GangLost, FailureClass.INFRA, "exit code 143", id="stopped by its node"),
    ],
)
async def test_a_worker_that_ends_badly(
    order: str, error: type, kind: FailureClass, told: str, gang: ObedientGang, cluster: KubernetesCluster
) -> None:
    running = await launched(gang.plan(3, resources={"memory": "96Mi"}), cluster)
    gang.order(1, order)
    failure = await ended(running, cluster)
    assert (type(failure), failure.kind) == (error, kind)
    cause = rf"worker 1 on lockstep-local \(\S+-1-w1, {kind}\): {told}; the 2 others were ended with it"
    assert re.fullmatch(cause, str(failure)), str(failure)


async def test_a_worker_that_stands_still_is_blamed_and_not_the_peer_that_lost_it(
    gang: ObedientGang, cluster: KubernetesCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SIGSTOP: its pod counts as running, and only its peers notice. It is ended all the same."""
    monkeypatch.setattr(gang_state, "BLAME_WINDOW_S", 1.0)
    running = await launched(gang.plan(), cluster)
    gang.order_all(code=HEARTBEAT)
    supervising = asyncio.create_task(ended(running, cluster))
    for rank in range(2):
        await said("met", running.pod(rank), cluster)
    gang.processes()[1].send_signal(signal.SIGSTOP)
    failure = await supervising
    assert (type(failure), failure.kind) == (GangLost, FailureClass.INFRA)
    assert str(failure).startswith("worker 1 on lockstep-local")
    assert "its peers have lost it, and its pod still counts as running" in str(failure)


@pytest.mark.parametrize(
    ("workers", "options", "told"),
    [
        pytest.param(2, {"pod_options": {"node_selector": {"none": "such"}}}, 2, id="its node does not exist"),
        pytest.param(4, {"resources": {"cpu": "0.6"}}, 1, id="too large for the machine: nobody keeps what it got"),
    ],
)
async def test_a_gang_that_does_not_start_in_time_releases_all_it_holds(
    workers: int, options: dict[str, Any], told: int, gang: ObedientGang, cluster: KubernetesCluster
) -> None:
    running = await launch(gang.plan(workers, timeouts={"startup_s": 1.5}, **options), cluster, CLOCK)
    failure = await ended(running, cluster)
    assert (type(failure), failure.kind) == (GangTimedOut, FailureClass.INFRA)
    assert "the startup timeout of 1.5 s passed" in str(failure)
    assert str(failure).count("cannot be scheduled: 0/1 nodes are available") >= told


async def test_a_pod_that_is_lost_before_it_starts_is_not_its_users_fault(
    gang: ObedientGang, cluster: KubernetesCluster, core: CoreV1Api
) -> None:
    """Preempted while it was pending (apache/airflow#59626: a raw 404)."""
    running = await launch(gang.plan(pod_options={"node_selector": {"none": "such"}}), cluster, CLOCK)
    supervising = asyncio.create_task(ended(running, cluster))
    await asyncio.to_thread(delete_a_pod, core, running)
    failure = await supervising
    assert (type(failure), failure.kind) == (GangLost, FailureClass.INFRA)
    assert "its pod was deleted from outside" in str(failure)


def delete_a_pod(core: CoreV1Api, running: RunningGang) -> None:
    core.delete_namespaced_pod(running.pod(1), "default", grace_period_seconds=1)


def delete_a_pod_that_hears_nothing(core: CoreV1Api, running: RunningGang) -> None:
    """A worker in the midst of a long call into a library does not react to SIGTERM."""
    delete_a_pod(core, running)


def delete_a_pod_by_force(core: CoreV1Api, running: RunningGang) -> None:
    core.delete_namespaced_pod(running.pod(1), "default", grace_period_seconds=0)


def delete_the_service(core: CoreV1Api, running: RunningGang) -> None:
    core.delete_namespaced_service(running.gang.name, "default")


def evict(core: CoreV1Api, running: RunningGang) -> None:
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": running.pod(1)}}
    core.create_namespaced_pod_eviction(running.pod(1), "default", eviction)


def lose_the_node(core: CoreV1Api, running: RunningGang) -> None:
    """As the taint manager does it: a condition first, then the deletion."""
    lost = {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager", "message": "node lost"}
    core.patch_namespaced_pod_status(running.pod(1), "default", {"status": {"conditions": [lost]}})
    core.delete_namespaced_pod(running.pod(1), "default", grace_period_seconds=1)


@pytest.mark.parametrize(
    ("outside", "told"),
    [
        pytest.param(delete_a_pod, r"exit code 143", id="a pod is deleted, and saves what it can"),
        pytest.param(
            delete_a_pod_that_hears_nothing, "its pod was deleted from outside, and killed", id="a pod is killed"
        ),
        pytest.param(delete_a_pod_by_force, "its pod was deleted from outside", id="a pod is deleted by force"),
        pytest.param(delete_the_service, "on lockstep-local", id="the Service is deleted, and its pods are collected"),
        pytest.param(evict, "EvictionByEvictionAPI", id="a pod is evicted"),
        pytest.param(lose_the_node, "DeletionByTaintManager", id="the node is given up"),
    ],
)
async def test_what_is_done_to_a_gang_from_outside_is_not_its_users_fault(
    outside: Callable[[CoreV1Api, RunningGang], None],
    told: str,
    gang: ObedientGang,
    cluster: KubernetesCluster,
    core: CoreV1Api,
) -> None:
    running = await launched(gang.plan(3), cluster)
    deaf = "signal.signal(signal.SIGTERM, signal.SIG_IGN); " if outside is delete_a_pod_that_hears_nothing else ""
    gang.order(1, f"{deaf}print('ready', flush=True); time.sleep(60)")
    await said("ready", running.pod(1), cluster)
    supervising = asyncio.create_task(ended(running, cluster))
    await asyncio.to_thread(outside, core, running)
    failure = await supervising
    assert (type(failure), failure.kind) == (GangLost, FailureClass.INFRA)
    assert told in str(failure)


async def test_a_gang_that_succeeds_is_created_once_and_costs_n_and_six_requests(
    gang: ObedientGang, cluster: KubernetesCluster, api: UnreliableApi
) -> None:
    """Exactly: a stray second pod doubles the bill."""
    running = await launched(gang.plan(4), cluster)
    assert api.created == dict.fromkeys((running.gang.name, *map(running.pod, range(4))), 1)
    assert api.kinds().items() >= {"create services": 1, "create pods": 4}.items()
    api.forget()
    gang.order_all(4)
    assert (await supervise(running, cluster, CLOCK)).uids == running.uids
    await leave(running, cluster)
    assert api.kinds() == {
        "list pods": 1,
        "watch pods": 1,
        "read log": 1,
        "delete pods": 1,
        "delete services": 1,
    }
