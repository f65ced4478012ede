"""How a run is started without surprising whoever owns the DAG's schedule.

A run of a paused DAG stays queued, so the DAG must be unpaused for it. But unpausing a DAG whose daily run is due makes
the scheduler start that run at once, and with one active run at a time the two would queue. So the run that is asked
for *is* the due one: the scheduler's own, or, with parameters, one triggered in its place (same logical date: the
scheduler then finds it there and starts none). After the run the DAG is as paused as it was before.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from lockstep.local.airflow_api import AirflowApi, DagInfo

_DAG_TIMEOUT_S = 120.0
_ASK_EVERY_S = 0.5
_Found = TypeVar("_Found")


class NotStarted(Exception):
    """The run could not be started; the message says why."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StartPlan:
    """`await_scheduler`: unpause, and take the run that the scheduler makes. Otherwise trigger one, for the date."""

    unpause: bool
    await_scheduler: bool
    logical_date: datetime | None


def plan_start(dag: DagInfo, conf: Mapping[str, Any], now: datetime) -> StartPlan:
    """Decide how to start a run; pure."""
    due = dag.paused and dag.next_run_after is not None and dag.next_run_after <= now
    return StartPlan(
        unpause=dag.paused,
        await_scheduler=due and not conf,
        logical_date=dag.next_logical_date if due else None,
    )


def start_run(api: AirflowApi, dag: DagInfo, plan: StartPlan, conf: Mapping[str, Any]) -> str:
    """Carry the plan out, and return the run's id."""
    if plan.await_scheduler and plan.logical_date is not None:
        date = plan.logical_date
        api.set_paused(dag.dag_id, False)
        return awaited(lambda: api.scheduled_run(dag.dag_id, date), "the scheduler started no run of the unpaused DAG")
    run_id = api.trigger(dag.dag_id, conf, plan.logical_date)
    if plan.unpause:
        api.set_paused(dag.dag_id, False)
    return run_id


def known_dag(api: AirflowApi, dag_id: str) -> DagInfo:
    """Return the DAG once Airflow has read it; raise `NotStarted` with the import errors if it does not."""
    try:
        return awaited(lambda: api.dag(dag_id), f"Airflow does not know the DAG {dag_id}")
    except NotStarted as error:
        raise NotStarted("\n  ".join([str(error), *api.import_errors()])) from None


def awaited(ask: Callable[[], _Found | None], otherwise: str) -> _Found:
    """Ask until there is an answer; raise `NotStarted` after a while."""
    deadline = time.monotonic() + _DAG_TIMEOUT_S
    while time.monotonic() < deadline:
        if (found := ask()) is not None:
            return found
        time.sleep(_ASK_EVERY_S)
    raise NotStarted(f"{otherwise} within {_DAG_TIMEOUT_S:.0f} s")
