"""Every ten minutes: gangs that go on though their task is over are removed.

Wiring only. It finds something where Airflow told nobody of a task's end: a person ended a deferred task before a
triggerer watched it, or the process of a task was killed and no retry was left.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from airflow.sdk import DAG

from lockstep.operators.sweep import SweepGangsOperator

with DAG(
    dag_id="lockstep_sweep",
    description="Remove the gangs whose task is over",
    doc_md=__doc__,
    schedule="*/10 * * * *",
    start_date=datetime(2026, 1, 1),
    catchup=False,
    max_active_runs=1,
    is_paused_upon_creation=False,
    tags=["lockstep"],
) as dag:
    SweepGangsOperator(task_id="sweep", execution_timeout=timedelta(minutes=9))
