"""What is done to a gang from Airflow's side, each over a connection of its own: by a task, or by its trigger."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lockstep import supervisor
from lockstep.kubernetes_cluster import RETRY_FOR_S, KubernetesCluster
from lockstep.system_clock import SystemClock

if TYPE_CHECKING:
    from lockstep.gang_state import Finish
    from lockstep.pod_plan import GangPlan
    from lockstep.removal import Removal
    from lockstep.running_gang import RunningGang


@dataclass(frozen=True, kw_only=True, slots=True)
class ConnectedGang:
    """One gang, or all its attempts, in `namespace` of the cluster that the Airflow connection `conn_id` leads to.

    Every call raises InvalidSpec where the connection leads nowhere, and what `lockstep.supervisor` says of it.
    """

    conn_id: str
    namespace: str

    async def launch(self, plan: GangPlan, deadline: float | None, *, again: bool) -> RunningGang:
        async with self._cluster() as cluster:
            return await supervisor.launch(plan, cluster, SystemClock(), deadline, again=again)

    async def supervise(self, running: RunningGang) -> Finish:
        """The connection was there for the launch: that it cannot be read now is no reason to lose the gang at once."""
        async with self._cluster(patience_s=RETRY_FOR_S) as cluster:
            return await supervisor.supervise(running, cluster, SystemClock())

    async def end(self, running: RunningGang) -> None:
        async with self._cluster() as cluster:
            await supervisor.end(running, cluster)

    async def leave(self, running: RunningGang) -> None:
        async with self._cluster() as cluster:
            await supervisor.leave(running, cluster)

    async def kill(self, removal: Removal) -> None:
        """Ask for the removal and wait for no pod: whoever is told to stop has no time."""
        async with self._cluster() as cluster:
            await removal.ask(cluster)

    @asynccontextmanager
    async def _cluster(self, *, patience_s: float = 0.0) -> AsyncIterator[KubernetesCluster]:
        cluster = KubernetesCluster(conn_id=self.conn_id, namespace=self.namespace)
        async with cluster.connected(patience_s=patience_s):
            yield cluster
