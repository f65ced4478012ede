"""Gangs that go on until the test lets them end, and a launch that never gets beyond its first pod."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from airflow.sdk import DAG

from lockstep.connected_gang import ConnectedGang
from lockstep.kubernetes_cluster import KubernetesCluster
from lockstep.operators.gang import GangOperator
from lockstep.training_spec import TrainingSpec

MAY_END = Path(os.environ["AIRFLOW_HOME"]) / "long_gangs_may_end"
LAUNCHING = Path(os.environ["AIRFLOW_HOME"]) / "launching.pid"
WORK = f"import pathlib, time\nwhile not pathlib.Path({str(MAY_END)!r}).exists(): time.sleep(0.2)"


class LongGang(GangOperator):
    """Two workers."""

    def execute(self, context: Any) -> Any:
        return self.run_gang(self.plan(context), context)

    def spec(self, context: Any) -> TrainingSpec:
        training = {"job": "a:B", "train_data": "gs://bucket/*", "global_batch_size": 1}
        return self._spec(context, workers=2, training=training, command=("python", "-c", WORK))

    def conclude(self, context: Any) -> list[str]:
        return ["every worker has returned 0"]


class HeldGang(LongGang):
    """Tells its process id, and stays between its first and its second pod."""

    def execute(self, context: Any) -> Any:
        LAUNCHING.write_text(str(os.getpid()))
        return super().execute(context)

    def _connected(self, namespace: str) -> ConnectedGang:
        return HeldLaunch(conn_id=self._conn_id(), namespace=namespace)


class HeldLaunch(ConnectedGang):
    @asynccontextmanager
    async def _cluster(self, *, patience_s: float = 0.0) -> AsyncIterator[KubernetesCluster]:
        cluster = HeldCluster(conn_id=self.conn_id, namespace=self.namespace)
        async with cluster.connected(patience_s=patience_s):
            yield cluster


class HeldCluster(KubernetesCluster):
    async def create_pod(self, plan: Any, worker: Any, owner_uid: str) -> Any:
        if worker.rank > 0:
            await asyncio.Event().wait()
        return await super().create_pod(plan, worker, owner_uid)


with DAG("long_gangs", schedule=None, is_paused_upon_creation=False):
    LongGang(task_id="ended")
    LongGang(task_id="healthy")

with DAG("held_gang", schedule=None, is_paused_upon_creation=False):
    HeldGang(task_id="held", retries=0)
