"""Leaves nothing orphaned: the task of a DAG of its own, `lockstep_sweep`.

Airflow tells a task or its trigger when it is ended; where neither is there to be told, pods go on for nobody.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from lockstep.airflow_errors import told_to_airflow
from lockstep.deployment import deployment

if TYPE_CHECKING:
    from airflow.sdk.definitions.context import Context

    from lockstep.names import GangId
    from lockstep.orphan import Fate, TaskStates


class SweepGangsOperator(BaseOperator):
    """Removes the gangs of this Airflow whose task instance is over. What is not given is the deployment's.

    Gangs of task instances that this Airflow does not know are named in the log and left alone. Where ended pods are
    kept (`clean_up`), only those go that still run.

    :param namespace: where to look.
    :param kubernetes_conn_id: Airflow connection to the cluster.
    :param grace_s: seconds between SIGTERM and SIGKILL.

    Returns the Services of the gangs that were `removed`, `ended` (what had ended before is kept), `kept` (their task
    goes on) and `left` alone.
    """

    template_fields: Sequence[str] = ("namespace", "kubernetes_conn_id")
    ui_color = "#d8e8f7"

    def __init__(
        self,
        *,
        namespace: str | None = None,
        kubernetes_conn_id: str | None = None,
        grace_s: int = 30,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.namespace = namespace
        self.kubernetes_conn_id = kubernetes_conn_id
        self.grace_s = grace_s

    def execute(self, context: Context) -> dict[str, list[str]]:
        with told_to_airflow():
            fates = asyncio.run(self._sweep(context["ti"]))
        return _by_fate(fates)

    async def _sweep(self, ti: Any) -> dict[str, Fate]:
        from lockstep.kubernetes_cluster import KubernetesCluster
        from lockstep.sweep import sweep

        async def states(gang: GangId) -> TaskStates:
            return await asyncio.to_thread(_states, ti, gang)

        site = deployment()
        cluster = KubernetesCluster(
            conn_id=self.kubernetes_conn_id or site.kubernetes_conn_id, namespace=self.namespace or site.namespace
        )
        async with cluster.connected():
            return await sweep(await cluster.standing(site.installation), states, cluster, self.grace_s)


def _states(ti: Any, gang: GangId) -> TaskStates:
    """Blocks: Airflow's own asynchronous call has no such question."""
    states: TaskStates = ti.get_task_states(
        dag_id=gang.dag_id, task_ids=[gang.task_id], run_ids=[gang.run_id], map_index=gang.map_index
    )
    return states


def _by_fate(fates: dict[str, Fate]) -> dict[str, list[str]]:
    from lockstep.orphan import Keep, Leave, Remove

    def name(fate: Fate) -> str:
        match fate:
            case Remove(keep_ended=keep_ended):
                return "ended" if keep_ended else "removed"
            case Keep():
                return "kept"
            case Leave():
                return "left"

    names = ("removed", "ended", "kept", "left")
    return {each: [service for service, fate in fates.items() if name(fate) == each] for each in names}
