"""Trains one model on a gang of pods: the task that a DAG names for it.

The story only: what is asked is parsed in `training_spec.py`, planned in `pod_plan.py`, run by `supervisor.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lockstep.airflow_errors import told_to_airflow
from lockstep.attempt_record import AttemptRecord
from lockstep.data_files import divide_files
from lockstep.errors import InvalidSpec, LockstepError
from lockstep.operators.gang import GangOperator
from lockstep.parsing import parse
from lockstep.roles import Roles
from lockstep.run_directory import RunDirectory
from lockstep.training_result import FILE_NAME as RESULT
from lockstep.training_spec import TrainingSpec
from lockstep.worker_pod import checked_pod_options

if TYPE_CHECKING:
    from airflow.sdk.definitions.context import Context

    from lockstep.failed_attempt import FailedAttempt
    from lockstep.running_gang import RunningGang


class DistributedTrainingOperator(GangOperator):
    """Starts one KubernetesPodOperator's pod per worker, and succeeds when every one of them has.

    :param workers: how many; 1 trains with MirroredStrategy, more with MultiWorkerMirroredStrategy.
    :param roles: instead of `workers`, pods by TensorFlow's task types, `chief`, `worker`, `ps` and `evaluator`, each
        with `replicas`, and with `resources`, `command` and `pod_options` of its own (`lockstep.roles.Role`).
    :param training: what the trainer is asked, the keys of `lockstep.training_spec.Training`.
    :param command: what the container runs; default: `python -m trainer`.

    The other parameters are those of `GangOperator`. Returns what `result.json` says. Errors that another try cannot
    mend fail the task without a retry.
    """

    template_fields: Sequence[str] = ("workers", "roles", "training", "command", *GangOperator.template_fields)
    template_fields_renderers = GangOperator.template_fields_renderers | {"roles": "json", "training": "json"}

    def __init__(
        self,
        *,
        training: Mapping[str, Any],
        workers: int | str | None = None,
        roles: Mapping[str, Any] | None = None,
        command: Sequence[str] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.workers = workers
        self.roles = roles
        self.training = training
        self.command = command

    def execute(self, context: Context) -> dict[str, Any]:
        with told_to_airflow():
            plan = self.plan(context)
            self._refuse_bad_input(plan.spec)
        return self.run_gang(plan, context)

    def spec(self, context: Context) -> TrainingSpec:
        asked = {"training": self.training, "command": self.command}
        if self.roles is None:
            return self._spec(context, workers=self.workers, **asked)
        return self._spec(context, workers=self._trainers(), roles=self.roles, **asked)

    def _trainers(self) -> int:
        """How many of the roles' pods train."""
        if self.workers is not None:
            raise InvalidSpec(f"{self.task_id}: workers and roles both say how many pods there are; give one of them")
        roles = parse(Roles, self.roles or {}, what=f"{self.task_id}.roles")
        for name, role in roles.given.items():
            checked_pod_options(role.pod_options, what=f"{self.task_id}.roles.{name}.pod_options")
        return roles.trainers

    def conclude(self, context: Context) -> dict[str, Any]:
        """What the chief reports of the training; only the run directory is known of an image that reports nothing."""
        url = self.run_url(context)
        return {"run_directory": url} | (RunDirectory.at(url).read_json(RESULT) or {})

    def first_attempt(self, context: Context) -> int:
        return RunDirectory.at(self.run_url(context)).next_attempt()

    def attempt_failed(self, context: Context, running: RunningGang, failed: FailedAttempt) -> str:
        """Kept in the run directory; where that cannot be done, the training goes on all the same."""
        try:
            return self._record(RunDirectory.at(self.run_url(context)), running, failed).cost
        except LockstepError as away:
            self.log.warning("What attempt %d came to is not recorded: %s", running.attempt, away)
            return "it goes on from the newest backup"

    def _record(self, run: RunDirectory, running: RunningGang, failed: FailedAttempt) -> AttemptRecord:
        record = AttemptRecord(
            attempt=running.attempt,
            workers=len(running.required),
            launched_at=running.launched_at,
            error=failed.error,
            kind=failed.kind,
            step=_latest(failed.step, run.last_step(running.attempt)),
            backup_step=run.backup_step(),
        )
        run.record(record)
        return record

    def _refuse_bad_input(self, spec: TrainingSpec) -> None:
        asked = spec.training
        report = divide_files(asked.train_data, asked.eval_data, workers=spec.workers, policy=asked.sharding)
        self.log.info("Sharding: %s", report.reason)
        RunDirectory.at(spec.run_directory).claim(spec.request())


def _latest(*steps: int | None) -> int | None:
    return max((step for step in steps if step is not None), default=None)
