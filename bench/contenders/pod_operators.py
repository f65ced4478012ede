"""N tasks, each a deferrable KubernetesPodOperator as one would write it, with the environment that training needs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow.providers.cncf.kubernetes.operators.pod import KubernetesPodOperator
from airflow.triggers.base import BaseTrigger

from bench.contender import COMMAND, CONN_ID, IMAGE, Work, context, deferred_to, side_by_side
from bench.contenders.gang import gang_plan


class Contender:
    def launch(self, work: Work) -> Sequence[BaseTrigger]:
        workers = gang_plan(work).workers
        self._operators = [_operator(work, worker.rank, worker.env) for worker in workers]
        self._contexts = [context(work.run, each.task_id) for each in self._operators]
        return side_by_side(deferred_to, self._operators, self._contexts)

    def finish(self, events: Sequence[Any]) -> None:
        side_by_side(
            lambda task, given, event: task.trigger_reentry(given, event), self._operators, self._contexts, events
        )


def _operator(work: Work, rank: int, env: dict[str, str]) -> KubernetesPodOperator:
    return KubernetesPodOperator(
        task_id=f"worker_{rank}",
        name=f"worker-{rank}",
        namespace=work.namespace,
        image=IMAGE,
        cmds=list(COMMAND),
        env_vars=env,
        kubernetes_conn_id=CONN_ID,
        deferrable=True,
        **work.pod_options,
    )
