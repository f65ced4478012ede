"""What Airflow hands to a task, as far as our operators look at it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from airflow.sdk import DAG, Param
from airflow.sdk.execution_time.context import OutletEventAccessors


def task_context(*, task_id: str = "task", conf: dict[str, Any] | None = None, **params: Any) -> Any:
    """The context of the first try of a task in a run of a DAG with `params`, started with `conf`."""
    return {
        "ti": SimpleNamespace(
            dag_id="dag", run_id="manual__1", task_id=task_id, map_index=-1, start_date=None, try_number=1, max_tries=1
        ),
        "dag": DAG("dag", schedule=None, params={name: Param(value) for name, value in params.items()}),
        "dag_run": SimpleNamespace(conf=conf),
        "outlet_events": OutletEventAccessors(),
    }
