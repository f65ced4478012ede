"""Lockstep: one gang of N, launched, watched and left by the product's own code."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from airflow.triggers.base import BaseTrigger

from bench.contender import COMMAND, CONN_ID, IMAGE, Work
from lockstep.kubernetes_cluster import KubernetesCluster
from lockstep.names import GangId
from lockstep.parsing import parse
from lockstep.pod_plan import GangPlan, plan_gang
from lockstep.restart_policy import Restarts
from lockstep.running_gang import RunningGang
from lockstep.supervisor import launch, leave
from lockstep.system_clock import SystemClock
from lockstep.training_spec import TrainingSpec
from lockstep.triggers.gang import gang_trigger

TRAINING = {
    "job": "trainer.examples.digits:DigitsJob",
    "train_data": "gs://bench/train-*.tfrecord",
    "per_replica_batch_size": 32,
}


class Contender:
    def launch(self, work: Work) -> Sequence[BaseTrigger]:
        self._running = asyncio.run(self._launch(gang_plan(work)))
        return [gang_trigger(self._running, Restarts(), CONN_ID)]

    def finish(self, events: Sequence[Any]) -> None:
        assert "uids" in events[0], events
        asyncio.run(self._leave(self._running))

    async def _launch(self, plan: GangPlan) -> RunningGang:
        cluster = KubernetesCluster(conn_id=CONN_ID, namespace=plan.spec.namespace)
        async with cluster.connected():
            return await launch(plan, cluster, SystemClock())

    async def _leave(self, running: RunningGang) -> None:
        cluster = KubernetesCluster(conn_id=CONN_ID, namespace=running.namespace)
        async with cluster.connected():
            await leave(running, cluster)


def gang_plan(work: Work) -> GangPlan:
    asked = {
        "image": IMAGE,
        "command": COMMAND,
        "workers": work.pods,
        "namespace": work.namespace,
        "service_account": "default",
        "run_directory": "gs://bench/run",
        "training": TRAINING,
        "pod_options": work.pod_options,
    }
    spec = parse(TrainingSpec, asked, what="bench")
    return plan_gang(spec, GangId(dag_id="bench", run_id=work.run, task_id="train"), attempt=1)
