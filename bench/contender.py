"""What the three have in common: the pods that they run, and the two ends of their work that a task's process does."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Protocol

from airflow.sdk.exceptions import TaskDeferred
from airflow.triggers.base import BaseTrigger

CONN_ID = "lockstep_bench"
IMAGE = "bench"
COMMAND = ("sleep", "3600")
AT_ONCE = 16
"""How many pods are created at once: what Lockstep does, and as if Airflow had as many worker slots free."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Work:
    """So many `pods` with the `labels`, in `namespace`; `run` tells launches apart.

    `placement` are arguments of KubernetesPodOperator.
    """

    pods: int
    namespace: str
    run: str
    labels: dict[str, str]
    placement: dict[str, Any]

    @property
    def pod_options(self) -> dict[str, Any]:
        return {"labels": self.labels, **self.placement}


class Contender(Protocol):
    """One launch after the other; `finish` is of the last."""

    def launch(self, work: Work) -> Sequence[BaseTrigger]:
        """Create what runs, and return what the task is deferred to."""

    def finish(self, events: Sequence[Any]) -> None:
        """What the tasks do when they are resumed with these events, one a trigger."""


def context(run: str, task_id: str) -> Any:
    """As much of a task's context as the operators look at."""
    ti = SimpleNamespace(
        dag_id="bench", task_id=task_id, run_id=run, map_index=-1, try_number=1, xcom_push=lambda key, value: None
    )
    return {"ti": ti, "run_id": run, "dag": SimpleNamespace()}


def deferred_to(operator: Any, given: Any) -> BaseTrigger:
    """Execute the operator up to the point where its task leaves the worker."""
    try:
        operator.execute(given)
    except TaskDeferred as deferred:
        trigger: BaseTrigger = deferred.trigger
        return trigger
    raise RuntimeError(f"{operator.task_id} was not deferred")


def side_by_side(do: Any, *many: Sequence[Any]) -> list[Any]:
    """`do` for each, so many at once as Airflow would with `AT_ONCE` slots; raises the first failure."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(do, *many))
