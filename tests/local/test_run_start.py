"""Which run is followed, and what becomes of the DAG's schedule."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from lockstep.local.airflow_api import DagInfo
from lockstep.local.run_start import StartPlan, plan_start

NOW = datetime(2026, 1, 2, 9, 0, tzinfo=UTC)
MIDNIGHT = datetime(2026, 1, 2, tzinfo=UTC)


def dag(*, paused: bool, next_run: datetime | None) -> DagInfo:
    return DagInfo(dag_id="d", paused=paused, next_logical_date=next_run, next_run_after=next_run)


@pytest.mark.parametrize(
    ("found", "conf", "expected"),
    [
        pytest.param(
            dag(paused=True, next_run=MIDNIGHT),
            {},
            StartPlan(unpause=True, await_scheduler=True, logical_date=MIDNIGHT),
            id="paused, and today's run is due: let the scheduler start it",
        ),
        pytest.param(
            dag(paused=True, next_run=MIDNIGHT),
            {"workers": 3},
            StartPlan(unpause=True, await_scheduler=False, logical_date=MIDNIGHT),
            id="the same with parameters: a run in today's place",
        ),
        pytest.param(
            dag(paused=True, next_run=MIDNIGHT + timedelta(days=1)),
            {},
            StartPlan(unpause=True, await_scheduler=False, logical_date=None),
            id="paused, and today's run was made: one more",
        ),
        pytest.param(
            dag(paused=True, next_run=None),
            {},
            StartPlan(unpause=True, await_scheduler=False, logical_date=None),
            id="paused, without a schedule",
        ),
        pytest.param(
            dag(paused=False, next_run=MIDNIGHT),
            {},
            StartPlan(unpause=False, await_scheduler=False, logical_date=None),
            id="not paused: the schedule is its owner's business",
        ),
    ],
)
def test_plan_start(found, conf, expected):
    assert plan_start(found, conf, NOW) == expected
