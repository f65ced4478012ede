"""What operators share whose work is done by a gang of pods: launch it, wait for it in the triggerer or here, end it.

A subclass says which gang (`execute` calls `run_gang`) and what its success means (`conclude`).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from lockstep.airflow_errors import airflow_error, told_to_airflow
from lockstep.deployment import deployment
from lockstep.names import GangId

if TYPE_CHECKING:
    from airflow.sdk.definitions.context import Context

    from lockstep.kubernetes_cluster import KubernetesCluster
    from lockstep.pod_plan import GangPlan
    from lockstep.running_gang import RunningGang


class GangOperator(BaseOperator):
    """:param kubernetes_conn_id: Airflow connection to the cluster; default: the deployment's.
    :param deferrable: wait in the triggerer, holding no worker slot; the same supervision either way.
    """

    def __init__(self, *, kubernetes_conn_id: str | None = None, deferrable: bool = True, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.kubernetes_conn_id = kubernetes_conn_id
        self.deferrable = deferrable
        self._running_plan: GangPlan | None = None

    def conclude(self, context: Context) -> Any:
        """The task's XCom, once every worker has returned 0."""
        raise NotImplementedError

    def run_gang(self, plan: GangPlan, context: Context) -> Any:
        """Launch the gang and see it through; does not return where the task is deferred."""
        self._running_plan = plan
        with told_to_airflow():
            running = asyncio.run(self._launch(plan, _deadline(self, context)))
            if not self.deferrable:
                asyncio.run(self._supervise(running))
                return self.conclude(context)
        from lockstep.triggers.gang import gang_trigger

        self.log.info("Waiting for %d workers in the triggerer", running.workers)
        return self.defer(trigger=gang_trigger(running, self._conn_id()), method_name=self.resume.__name__)

    def resume(self, context: Context, event: dict[str, Any]) -> Any:
        """Called by Airflow when the trigger has fired."""
        if "error" in event:
            raise airflow_error(event["error"], retryable=event["retryable"])
        self.log.info("Every worker has returned 0 (pods %s)", ", ".join(event["uids"]))
        with told_to_airflow():
            return self.conclude(context)

    def on_kill(self) -> None:
        """Called by Airflow when this process is told to stop; while deferred it is the trigger that is told."""
        if self._running_plan is not None:
            asyncio.run(self._kill(self._running_plan))

    async def _launch(self, plan: GangPlan, deadline: float | None) -> RunningGang:
        from lockstep.supervisor import launch
        from lockstep.system_clock import SystemClock

        cluster = self._cluster(plan.spec.namespace)
        async with cluster.connected():
            return await launch(plan, cluster, SystemClock(), deadline)

    async def _supervise(self, running: RunningGang) -> None:
        from lockstep.supervisor import supervise
        from lockstep.system_clock import SystemClock

        cluster = self._cluster(running.namespace)
        async with cluster.connected():
            await supervise(running, cluster, SystemClock())

    async def _kill(self, plan: GangPlan) -> None:
        cluster = self._cluster(plan.spec.namespace)
        async with cluster.connected():
            await cluster.delete(plan.gang, plan.spec.timeouts.grace_s)
        self.log.info("The task was told to stop; the pods of %s are being deleted", plan.gang)

    def _cluster(self, namespace: str) -> KubernetesCluster:
        from lockstep.kubernetes_cluster import KubernetesCluster

        return KubernetesCluster(conn_id=self._conn_id(), namespace=namespace)

    def _conn_id(self) -> str:
        return self.kubernetes_conn_id or deployment().kubernetes_conn_id


def gang_of(context: Context) -> GangId:
    """The gang of this task instance: the same one in every try."""
    ti = context["ti"]
    return GangId(
        dag_id=ti.dag_id, run_id=ti.run_id, task_id=ti.task_id, map_index=-1 if ti.map_index is None else ti.map_index
    )


def _deadline(operator: BaseOperator, context: Context) -> float | None:
    started = context["ti"].start_date
    if operator.execution_timeout is None or started is None:
        return None
    return float((started + operator.execution_timeout).timestamp())
