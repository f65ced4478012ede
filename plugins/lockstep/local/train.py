"""The demo: brings the stack up, runs the example DAG, follows it to its end and says what came out."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from lockstep.errors import LockstepError
from lockstep.local.airflow_api import AirflowApi
from lockstep.local.airflow_service import RUN_ROOT
from lockstep.local.follow import FollowedRun, RunFollower
from lockstep.local.run_start import known_dag, plan_start, start_run
from lockstep.local.stack import Stack
from lockstep.local.summary import RunSummary
from lockstep.names import GangId
from lockstep.run_directory import PROGRESS, RunDirectory, run_url

DAG_ID = "train_digits"
TRAIN, VALIDATE, REGISTER = "train", "validate", "register"


class RunFailed(Exception):
    """The DAG run failed; the message names the task and its error."""


def train(stack: Stack, params: Mapping[str, Any], report: Callable[[str], None], dag_id: str = DAG_ID) -> None:
    """Run the DAG once and report. Raise `RunFailed`, `NotStarted` or `AirflowRefused`.

    The DAG is left as paused as it was found, unless the run is still going on when this is interrupted.
    """
    with AirflowApi(stack.airflow_url) as api:
        dag = known_dag(api, dag_id)
        plan = plan_start(dag, params, datetime.now(UTC))
        run_id = start_run(api, dag, plan, params)
        report(f"run {run_id} of {dag_id}: {airflow_run_url(stack, dag_id, run_id)}")
        run = follower(stack, api, dag_id, run_id, report).follow()
        if plan.unpause:
            api.set_paused(dag_id, True)
        if run.state != "success":
            raise RunFailed(failure(api, dag_id, run_id, run))
        for line in summary(stack, api, dag_id, run_id, run).lines():
            report(line)


def follower(stack: Stack, api: AirflowApi, dag_id: str, run_id: str, report: Callable[[str], None]) -> RunFollower:
    # The storage client takes the emulator's address from the environment only.
    os.environ["STORAGE_EMULATOR_HOST"] = stack.storage_url
    directory = RunDirectory.at(run_url(RUN_ROOT, GangId(dag_id=dag_id, run_id=run_id, task_id=TRAIN)))

    def progress() -> Mapping[str, Any] | None:
        try:
            found = directory.read_json(PROGRESS)
        except LockstepError:
            return None  # Progress is a courtesy: the run's state comes from Airflow.
        return found if isinstance(found, dict) else None

    return RunFollower(api, dag_id, run_id, report=report, progress=progress, memory=stack.memory_bytes)


def failure(api: AirflowApi, dag_id: str, run_id: str, run: FollowedRun) -> str:
    """Say which task failed first, and of what."""
    failed = [task for task in run.tasks if task.state == "failed"]
    if not failed:
        return f"run {run_id} of {dag_id} ended {run.state}"
    return f"task {failed[0].task_id} failed: {api.error_of(dag_id, run_id, failed[0])}"


def summary(stack: Stack, api: AirflowApi, dag_id: str, run_id: str, run: FollowedRun) -> RunSummary:
    training, validation, registration = (api.returned(dag_id, run_id, task) for task in (TRAIN, VALIDATE, REGISTER))
    return RunSummary(
        training=training,
        validation=validation,
        registration=registration,
        tasks=run.tasks,
        seconds=run.seconds,
        peak_memory_bytes=run.peak_memory_bytes,
        run_url=airflow_run_url(stack, dag_id, run_id),
        model_url=mlflow_model_url(stack, registration),
    )


def airflow_run_url(stack: Stack, dag_id: str, run_id: str) -> str:
    return f"{stack.airflow_url}/dags/{quote(dag_id)}/runs/{quote(run_id, safe='')}"


def mlflow_model_url(stack: Stack, registration: Mapping[str, Any]) -> str:
    return f"{stack.mlflow_url}/#/models/{quote(registration['name'], safe='')}/versions/{registration['version']}"
