"""Gangs for the real cluster: what a test's workers run, launched and supervised by the product itself."""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from lockstep.gang_state import Finish
from lockstep.kubernetes_cluster import KubernetesCluster
from lockstep.names import GangId
from lockstep.pod_event import PodGone, PodSeen
from lockstep.pod_plan import GangPlan, plan_gang
from lockstep.pod_snapshot import PodSnapshot
from lockstep.running_gang import RunningGang
from lockstep.supervisor import launch, leave, supervise
from lockstep.system_clock import SystemClock
from tests.cluster.installation import TRAINER
from tests.unit.builders import spec

CONN_ID = "lockstep_supervisor"
SLEEP = "import time; print('ready'); time.sleep(600)"
# Each worker meets all others under the addresses of its TF_CONFIG, or fails.
MEET = """
import json, os
from trainer.rendezvous import introduce, meet_all_peers
cluster = json.loads(os.environ["TF_CONFIG"])
addresses, rank = cluster["cluster"]["worker"], cluster["task"]["index"]
print(addresses, meet_all_peers(addresses, introduce("gs://none", addresses, 1, rank), timeout_s=60))
"""
WAIT_S = 90.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Gangs:
    """Gangs in one namespace. `image` has a Python on its PATH."""

    cluster: KubernetesCluster
    namespace: str
    image: str

    def plan(self, code: str = SLEEP, *, workers: int = 2, **given: Any) -> GangPlan:
        """A gang whose workers run `code`; `given` says what else matters to the test."""
        asked = {
            "image": self.image,
            "workers": workers,
            "command": ("python", "-uc", code),
            "namespace": self.namespace,
            "service_account": TRAINER,
            "resources": {"cpu": "50m", "memory": "64Mi"},
            "timeouts": {"grace_s": 1, **given.pop("timeouts", {})},  # most workers here have nothing to save
        }
        gang = GangId(dag_id="real", run_id=uuid.uuid4().hex, task_id="train")
        return plan_gang(spec(**asked | given), gang, attempt=1)

    async def run(self, plan: GangPlan) -> Finish:
        """Launch and supervise to the end, whatever it is."""
        async with self.cluster.connected():
            return await self.see_through(await self.launch(plan))

    async def launch(self, plan: GangPlan) -> RunningGang:
        return await launch(plan, self.cluster, SystemClock())

    async def supervise(self, running: RunningGang) -> Finish:
        return await supervise(running, self.cluster, SystemClock())

    async def see_through(self, running: RunningGang) -> Finish:
        """Supervise, and remove what a success leaves, as the task does once it knows."""
        finish = await self.supervise(running)
        await leave(running, self.cluster)
        return finish

    async def started(self, plan: GangPlan) -> Sequence[PodSnapshot]:
        """Wait until every worker's container runs."""
        return await self.seen(plan, lambda pods: len(pods) == len(plan.workers) and all(pod.started for pod in pods))

    async def gone(self, plan: GangPlan) -> None:
        """Wait until no pod of the gang is left."""
        await self.seen(plan, lambda pods: not pods)

    async def seen(self, plan: GangPlan, holds: Callable[[Sequence[PodSnapshot]], bool]) -> Sequence[PodSnapshot]:
        """Wait until what is true of the gang's pods `holds`. Raises TimeoutError."""
        pods: dict[str, PodSnapshot] = {}
        async with asyncio.timeout(WAIT_S):
            async for event in self.cluster.events(plan.gang):
                match event:
                    case PodSeen(pod):
                        pods[pod.uid] = pod
                    case PodGone(pod):
                        pods.pop(pod.uid, None)
                    case listed:
                        pods = {pod.uid: pod for pod in listed.pods}
                if holds(tuple(pods.values())):
                    break
        return tuple(pods.values())


def gangs(namespace: str) -> Gangs:
    cluster = KubernetesCluster(conn_id=CONN_ID, namespace=namespace)
    return Gangs(cluster=cluster, namespace=namespace, image=os.environ["LOCKSTEP_TEST_IMAGE"])
