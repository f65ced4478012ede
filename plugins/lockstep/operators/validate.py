"""Decides whether what a gang left behind may be called a model: judged here, then loaded and run in a pod.

The checks themselves are checkpoint.py's, fetching is run_directory.py's, loading is the trainer image's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from lockstep.airflow_errors import told_to_airflow
from lockstep.checkpoint import CheckpointReport, Wishes, judge
from lockstep.deployment import deployment, required
from lockstep.errors import CheckpointRejected, InvalidSpec
from lockstep.operators.gang import GangOperator
from lockstep.parsing import parse
from lockstep.run_directory import SPEC, RunDirectory
from lockstep.training_spec import TrainingSpec

if TYPE_CHECKING:
    from airflow.sdk.definitions.context import Context

VERIFY_COMMAND = ("python", "-m", "trainer.verify_model")


class ValidateCheckpointOperator(GangOperator):
    """Refuses a result of which any claim is false, saying all that is; passes on what it verified.

    :param min_metrics: lowest value allowed for each metric named.
    :param max_metrics: highest value allowed for each metric named.
    :param max_drop: how far each metric named may fall below the champion's.
    :param max_rise: how far each metric named may rise above the champion's.
    :param model_name: whose champion to compare with; needed for `max_drop` and `max_rise` only.
    :param alias: which version is the champion.
    :param mlflow_tracking_uri: where; default: the deployment's.
    :param verify_command: what a pod runs to load the model, the run directory appended; None: no pod, nothing loaded.

    The other parameters are those of `GangOperator`.
    Returns `digest`, `files`, `size_bytes`, `step`, `metrics`, `checkpoint`, `model`, `run_directory`, and for
    each of the two directories what was verified and what no manifest lists. Refusals fail the task without a retry.
    """

    template_fields: Sequence[str] = (
        "min_metrics",
        "max_metrics",
        "max_drop",
        "max_rise",
        "model_name",
        "alias",
        "mlflow_tracking_uri",
        "verify_command",
        *GangOperator.template_fields,
    )

    def __init__(
        self,
        *,
        min_metrics: Mapping[str, float | str] | None = None,
        max_metrics: Mapping[str, float | str] | None = None,
        max_drop: Mapping[str, float | str] | None = None,
        max_rise: Mapping[str, float | str] | None = None,
        model_name: str | None = None,
        alias: str = "champion",
        mlflow_tracking_uri: str | None = None,
        verify_command: Sequence[str] | None = VERIFY_COMMAND,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.min_metrics = min_metrics
        self.max_metrics = max_metrics
        self.max_drop = max_drop
        self.max_rise = max_rise
        self.model_name = model_name
        self.alias = alias
        self.mlflow_tracking_uri = mlflow_tracking_uri
        self.verify_command = verify_command

    def execute(self, context: Context) -> Any:
        with told_to_airflow():
            report = self.report(context)
            if self.verify_command is None:
                return self._verified(report, context)
            plan = self.plan(context)
        return self.run_gang(plan, context)

    def conclude(self, context: Context) -> dict[str, Any]:
        """Judge again what the pod has loaded: what passes on is what is there now."""
        return self._verified(self.report(context), context)

    def report(self, context: Context) -> CheckpointReport:
        """Everything that can be said without loading the model. Raises CheckpointRejected."""
        run = RunDirectory.at(self.run_url(context))
        result = run.result()
        return judge(
            result,
            checkpoint=run.stored_directory(result.checkpoint),
            model=run.stored_directory(result.model),
            wishes=self._wishes(run),
            champion=self._champion_metrics(),
            source=str(run.url),
        )

    def spec(self, context: Context) -> TrainingSpec:
        """The one pod that loads the model."""
        url = self.run_url(context)
        training = _request(RunDirectory.at(url))["training"]
        return self._spec(context, workers=1, training=training, command=(*(self.verify_command or ()), url))

    def _wishes(self, run: RunDirectory) -> Wishes:
        asked = _request(run)
        bounds = {name: getattr(self, name) or {} for name in ("min_metrics", "max_metrics", "max_drop", "max_rise")}
        return parse(
            Wishes, {"workers": asked["workers"], "epochs": asked["training"]["epochs"], **bounds}, what=self.task_id
        )

    def _champion_metrics(self) -> Mapping[str, float] | None:
        if not (self.max_drop or self.max_rise):
            return None
        from lockstep.model_registry import ModelRegistry

        if not self.model_name:
            raise InvalidSpec(f"{self.task_id}: max_drop and max_rise compare with a champion: give model_name too")
        tracking_uri = required(self.mlflow_tracking_uri or deployment().mlflow_tracking_uri, "mlflow_tracking_uri")
        champion = ModelRegistry(tracking_uri).champion(self.model_name, self.alias)
        self.log.info("Comparing with the champion: %s", champion or "there is none yet")
        return champion.metrics if champion else None

    def _verified(self, report: CheckpointReport, context: Context) -> dict[str, Any]:
        self.log.info("Verified %d files, %d bytes, digest %s", report.files, report.size_bytes, report.digest)
        return {
            "digest": report.digest,
            "files": report.files,
            "size_bytes": report.size_bytes,
            "step": report.step,
            "metrics": dict(report.metrics),
            "checkpoint": report.checkpoint.path,
            "model": report.model.path,
            "run_directory": self.run_url(context),
            "directories": [
                asdict(part) | {"unlisted": list(part.unlisted)} for part in (report.checkpoint, report.model)
            ],
        }


def _request(run: RunDirectory) -> dict[str, Any]:
    """What the run was asked for: its spec.json."""
    asked = run.read_json(SPEC)
    if not isinstance(asked, dict) or not {"workers", "training"} <= asked.keys():
        raise CheckpointRejected(f"{run.url / SPEC} does not say what was asked for: train in a new run directory")
    return asked
