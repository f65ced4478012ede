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
from lockstep.links import RunDirectoryLink
from lockstep.loopback_ports import free_loopback_ports
from lockstep.operators.gang import GangOperator, gang_of
from lockstep.parsing import parse
from lockstep.pod_plan import plan_gang
from lockstep.run_directory import SPEC, RunDirectory, run_url
from lockstep.training_spec import TrainingSpec

if TYPE_CHECKING:
    from airflow.sdk.definitions.context import Context

    from lockstep.pod_plan import GangPlan

VERIFY_COMMAND = ("python", "-m", "trainer.verify_model")


class ValidateCheckpointOperator(GangOperator):
    """Refuses a result of which any claim is false, saying all that is; passes on what it verified.

    :param run_directory: gs:// directory of the run; default: `<run_root>/<dag>/<run>`.
    :param min_metrics: lowest value allowed for each metric named.
    :param max_metrics: highest value allowed for each metric named.
    :param max_drop: how far each metric named may fall below the champion's.
    :param max_rise: how far each metric named may rise above the champion's.
    :param model_name: whose champion to compare with; needed for `max_drop` and `max_rise` only.
    :param alias: which version is the champion.
    :param mlflow_tracking_uri: where; default: the deployment's.
    :param verify_command: what a pod runs to load the model, the run directory appended; None: no pod, nothing loaded.
    :param image: the trainer's image; default: the deployment's.
    :param worker_resources: the pod's `cpu`, `memory` and `gpu`.
    :param timeouts: seconds: `startup_s`, `run_s`, `grace_s`.
    :param pod_options: any argument of KubernetesPodOperator that describes a pod.

    Returns `digest`, `files`, `size_bytes`, `step`, `metrics`, `checkpoint`, `model`, `run_directory`, and for
    each of the two directories what was verified and what no manifest lists. Refusals fail the task without a retry.
    """

    template_fields: Sequence[str] = (
        "run_directory",
        "min_metrics",
        "max_metrics",
        "max_drop",
        "max_rise",
        "model_name",
        "alias",
        "mlflow_tracking_uri",
        "verify_command",
        "image",
        "worker_resources",
        "timeouts",
        "env",
        "namespace",
        "service_account",
        "kubernetes_conn_id",
        "pod_options",
    )
    operator_extra_links = (RunDirectoryLink(),)
    ui_color = "#d8e8f7"

    def __init__(
        self,
        *,
        run_directory: str | None = None,
        min_metrics: Mapping[str, float | str] | None = None,
        max_metrics: Mapping[str, float | str] | None = None,
        max_drop: Mapping[str, float | str] | None = None,
        max_rise: Mapping[str, float | str] | None = None,
        model_name: str | None = None,
        alias: str = "champion",
        mlflow_tracking_uri: str | None = None,
        verify_command: Sequence[str] | None = VERIFY_COMMAND,
        image: str | None = None,
        worker_resources: Mapping[str, Any] | None = None,
        timeouts: Mapping[str, Any] | None = None,
        env: Mapping[str, str] | None = None,
        namespace: str | None = None,
        service_account: str | None = None,
        pod_options: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.run_directory = run_directory
        self.min_metrics = min_metrics
        self.max_metrics = max_metrics
        self.max_drop = max_drop
        self.max_rise = max_rise
        self.model_name = model_name
        self.alias = alias
        self.mlflow_tracking_uri = mlflow_tracking_uri
        self.verify_command = verify_command
        self.image = image
        self.worker_resources = worker_resources
        self.timeouts = timeouts
        self.env = env
        self.namespace = namespace
        self.service_account = service_account
        self.pod_options = pod_options

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
        run = RunDirectory.at(self._url(context))
        result = run.result()
        return judge(
            result,
            checkpoint=run.stored_directory(result.checkpoint),
            model=run.stored_directory(result.model),
            wishes=self._wishes(run),
            champion=self._champion_metrics(),
            source=str(run.url),
        )

    def plan(self, context: Context) -> GangPlan:
        """The one pod that loads the model."""
        spec = self._spec(context)
        ports = free_loopback_ports(1) if spec.rendezvous == "loopback" else ()
        return plan_gang(spec, gang_of(context), attempt=1, loopback_ports=ports)

    def _spec(self, context: Context) -> TrainingSpec:
        site, url = deployment(), self._url(context)
        given = {
            "image": self.image or required(site.image, "image"),
            "workers": 1,
            "run_directory": url,
            "training": _request(RunDirectory.at(url))["training"],
            "command": (*(self.verify_command or ()), url),
            "namespace": self.namespace or site.namespace,
            "service_account": self.service_account or site.service_account,
            "resources": self.worker_resources,
            "env": self.env,
            "rendezvous": site.rendezvous,
            "timeouts": self.timeouts,
            "pod_options": self.pod_options,
        }
        return parse(TrainingSpec, {key: value for key, value in given.items() if value is not None}, what=self.task_id)

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

    def _url(self, context: Context) -> str:
        return self.run_directory or run_url(required(deployment().run_root, "run_root"), gang_of(context))

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
            "run_directory": self._url(context),
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
