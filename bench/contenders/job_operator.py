"""One task: a deferrable KubernetesJobOperator with an indexed Job, which one failed pod ends.

Its pods are all alike, so they would make their TF_CONFIG themselves, of their index.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow.providers.cncf.kubernetes.operators.job import KubernetesJobOperator
from airflow.triggers.base import BaseTrigger

from bench.contender import COMMAND, CONN_ID, IMAGE, Work, context, deferred_to

LOOK_UPS = 100_000
"""How often it may look for its pods at once, until all are there: its default, 3, is over before the first is."""


class Contender:
    def launch(self, work: Work) -> Sequence[BaseTrigger]:
        self._operator = _operator(work)
        self._context = context(work.run, self._operator.task_id)
        return [deferred_to(self._operator, self._context)]

    def finish(self, events: Sequence[Any]) -> None:
        self._operator.execute_complete(self._context, events[0])


def _operator(work: Work) -> KubernetesJobOperator:
    return KubernetesJobOperator(
        task_id="train",
        name="train",
        namespace=work.namespace,
        image=IMAGE,
        cmds=list(COMMAND),
        kubernetes_conn_id=CONN_ID,
        completion_mode="Indexed",
        completions=work.pods,
        parallelism=work.pods,
        backoff_limit=0,
        discover_pods_retry_number=LOOK_UPS,
        wait_until_job_complete=True,
        deferrable=True,
        **work.pod_options,
    )
