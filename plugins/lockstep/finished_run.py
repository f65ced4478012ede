"""A whole DAG run in this process, by `dag.test()`, and what it left, as values to assert on.

Where its pods, storage and registry are is said by the environment: the one-machine stack's, or any other's.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow.models.dagrun import DagRun
    from airflow.sdk import DAG
    from sqlalchemy.orm import Session


@dataclass(frozen=True, kw_only=True, slots=True)
class FinishedRun:
    """How a run ended. Tasks are named by their id, instances of a mapped task as `task[0]`.

    `state` is "success" or "failed"; `tasks` has each task's state, `returned` what tasks have returned, and `errors`
    the error with which the last try of a task ended that did not succeed.
    """

    dag_id: str
    run_id: str
    state: str
    tasks: Mapping[str, str | None]
    returned: Mapping[str, Any]
    errors: Mapping[str, str]


def run_to_the_end(
    dag: DAG,
    *,
    params: Mapping[str, Any] | None = None,
    logical_date: datetime | None = None,
    retries: int | None = None,
    mark_success_pattern: str | None = None,
) -> FinishedRun:
    """Run every task of the DAG here, one after the other, and return once none is left to run.

    Deferrable tasks wait here too, so nothing but the database is needed of Airflow. `params` is the run's
    configuration, as in the Trigger form. A run of the same `logical_date` is run again, under the same run id.
    `retries` stands in for what each task of the DAG says, and is left so. Tasks whose id the regular expression
    `mark_success_pattern` matches are taken as done.

    Raises:
        airflow.sdk.exceptions.ParamValidationError: Airflow refuses the params.
    """
    date = logical_date or datetime.now(UTC)
    for task in dag.tasks if retries is not None else ():
        task.retries = retries
    with _only_file(Path(dag.fileloc)), _failures() as errors:
        run = dag.test(
            run_conf=dict(params or {}), logical_date=date, run_after=date, mark_success_pattern=mark_success_pattern
        )
        return _left_by(run, errors)


def _left_by(run: DagRun, errors: Mapping[str, str]) -> FinishedRun:
    from airflow.utils.session import create_session

    with create_session() as session:
        states = {
            task_name(ti.task_id, ti.map_index): None if ti.state is None else str(ti.state)
            for ti in run.get_task_instances(session=session)
        }
        returned = dict(_returned(run, session))
    return FinishedRun(
        dag_id=run.dag_id,
        run_id=run.run_id,
        state=str(run.state),
        tasks=states,
        returned=returned,
        errors={name: error for name, error in errors.items() if states.get(name) != "success"},
    )


def _returned(run: DagRun, session: Session) -> Iterator[tuple[str, Any]]:
    from airflow.models.xcom import XComModel
    from sqlalchemy import select

    asked = select(XComModel).where(
        XComModel.dag_id == run.dag_id, XComModel.run_id == run.run_id, XComModel.key == "return_value"
    )
    for xcom in session.scalars(asked):
        yield task_name(xcom.task_id, xcom.map_index), XComModel.deserialize_value(xcom)


def task_name(task_id: str, map_index: int | None) -> str:
    return task_id if map_index is None or map_index < 0 else f"{task_id}[{map_index}]"


@contextmanager
def _failures() -> Iterator[dict[str, str]]:
    """Collect what tasks die of: Airflow tells that to listeners and to the log, and keeps it nowhere."""
    from airflow.listeners import hookimpl
    from airflow.sdk.listener import get_listener_manager

    class Listener:
        @hookimpl
        def on_task_instance_failed(self, task_instance: Any, error: object) -> None:
            errors[task_name(task_instance.task_id, task_instance.map_index)] = str(error)

    errors: dict[str, str] = {}
    listener, manager = Listener(), get_listener_manager()
    manager.add_listener(listener)
    try:
        yield errors
    finally:
        manager.pm.unregister(listener)


@contextmanager
def _only_file(file: Path) -> Iterator[None]:
    """Let Airflow read this DAG file and no other; a task's traces in the environment are removed afterwards."""
    bundle = {
        "name": "lockstep-pytest",
        "classpath": "airflow.dag_processing.bundles.local.LocalDagBundle",
        "kwargs": {"path": str(file.resolve())},
    }
    before = dict(os.environ)
    os.environ["AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST"] = json.dumps([bundle])
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
