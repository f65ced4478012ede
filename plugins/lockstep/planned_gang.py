"""A task of a DAG -> the gang that it would start, as values: what a test asserts on without a cluster.

Templates are rendered by Airflow's own task runner, from made-up run data; nothing is sent anywhere.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from lockstep.errors import InvalidSpec
from lockstep.gang_manifests import object_manifests, pod_manifests
from lockstep.operators.gang import GangOperator
from lockstep.parsing import nearest, unknown_key
from lockstep.worker_pod import service_manifest

if TYPE_CHECKING:
    from airflow.sdk import DAG
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

    from lockstep.pod_plan import GangPlan

XCOM = "return_value"


class NoGang(TypeError):
    """The task starts no gang."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannedGang:
    """`plan` is Lockstep's; `service`, `objects` and `pods` (by rank) are what the Kubernetes API would be sent."""

    plan: GangPlan
    service: dict[str, Any]
    objects: tuple[dict[str, Any], ...]
    pods: tuple[dict[str, Any], ...]

    @property
    def manifests(self) -> tuple[dict[str, Any], ...]:
        """All of them, in the order in which they are created."""
        return self.service, *self.objects, *self.pods


def plan_task(
    dag: DAG,
    task_id: str,
    *,
    params: Mapping[str, Any] | None = None,
    logical_date: datetime | None = None,
    returned: Mapping[str, Any] | None = None,
    run_id: str | None = None,
    map_index: int = -1,
) -> PlannedGang:
    """Return the gang that `task_id` would start in a run with these params, for this date (default: now).

    `returned` says what upstream tasks have returned, by task id, where templates ask for it. `run_id` is that of a
    manual run for the date unless it is given; `map_index` counts the instances of a mapped task.

    Raises:
        InvalidSpec: the DAG has no such task or param, or the operator refuses what it is given.
        airflow.sdk.exceptions.ParamValidationError: a param's own schema refuses its value.
        NoGang: the task starts no gang; a TypeError.
    """
    _refuse_unknown(params or {}, dag)
    _refuse_unknown_task(task_id, dag)
    run = _dag_run(dag, params or {}, logical_date or datetime.now(UTC), run_id)
    ti = _task_instance(dag, task_id, map_index, run, returned or {})
    context = ti.get_template_context()
    ti.render_templates(context)
    if not isinstance(ti.task, GangOperator):
        raise NoGang(f"task {task_id!r} of {dag.dag_id} starts no gang: it is a {type(ti.task).__name__}")
    plan = ti.task.plan(context)
    return PlannedGang(
        plan=plan, service=service_manifest(plan), objects=object_manifests(plan), pods=pod_manifests(plan)
    )


def _refuse_unknown(params: Mapping[str, Any], dag: DAG) -> None:
    if unknown := [unknown_key(key, dag.params) for key in params if key not in dag.params]:
        raise InvalidSpec("; ".join(unknown))


def _refuse_unknown_task(task_id: str, dag: DAG) -> None:
    if task_id not in dag.task_dict:
        near, found = nearest(task_id, dag.task_dict), ", ".join(sorted(dag.task_dict))
        raise InvalidSpec(f"DAG {dag.dag_id} has no task {task_id!r}{near}; it has: {found}")


def _task_instance(
    dag: DAG, task_id: str, map_index: int, run: Mapping[str, Any], returned: Mapping[str, Any]
) -> RuntimeTaskInstance:
    """A first try of the task, as the task runner would have it; it pulls XComs from `returned`."""
    from airflow.sdk.api.datamodels._generated import TIRunContext
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

    class PlannedTaskInstance(RuntimeTaskInstance):
        def xcom_pull(self, task_ids: Any = None, dag_id: Any = None, key: str = XCOM, *_: Any, **__: Any) -> Any:
            return _pulled(returned, task_ids, key)

    return PlannedTaskInstance.model_construct(
        id=uuid.uuid4(),
        dag_version_id=uuid.uuid4(),
        dag_id=dag.dag_id,
        task_id=task_id,
        run_id=run["run_id"],
        try_number=1,
        map_index=map_index,
        max_tries=0,
        start_date=run["start_date"],
        state="running",
        task=dag.get_task(task_id).prepare_for_execution(),
        _ti_context_from_server=TIRunContext.model_validate({"dag_run": run, "max_tries": 0}),
    )


def _pulled(returned: Mapping[str, Any], task_ids: Any, key: str) -> Any:
    """The XCom; a key of its own is one that the task's returned mapping has, as with `multiple_outputs`."""
    if not isinstance(task_ids, str):
        return [_pulled(returned, task_id, key) for task_id in task_ids]
    try:
        return returned[task_ids] if key == XCOM else returned[task_ids][key]
    except KeyError:
        asked = f"{key!r} of task {task_ids!r}"
        raise LookupError(f"a template asks for {asked}: give it as returned={{{task_ids!r}: …}}") from None


def _dag_run(dag: DAG, params: Mapping[str, Any], date: datetime, run_id: str | None) -> dict[str, Any]:
    """A manual run for `date`, in the form in which a task is told of its run."""
    from airflow.sdk import timezone
    from airflow.serialization.encoders import coerce_to_core_timetable

    moment = timezone.coerce_datetime(date)
    interval = coerce_to_core_timetable(dag.timetable).infer_manual_data_interval(run_after=moment)
    return {
        "dag_id": dag.dag_id,
        "run_id": run_id or f"manual__{moment.isoformat()}",
        "logical_date": moment,
        "data_interval_start": interval.start,
        "data_interval_end": interval.end,
        "run_after": moment,
        "start_date": moment,
        "end_date": None,
        "run_type": "manual",
        "state": "running",
        "conf": dict(params),
        "consumed_asset_events": [],
        "partition_key": None,
    }
