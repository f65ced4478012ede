"""Trains one model on a gang of pods: the task that a DAG names for it.

The story only: what is asked is parsed in `training_spec.py`, planned in `pod_plan.py`, run by `supervisor.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lockstep.airflow_errors import told_to_airflow
from lockstep.cloud_storage import CloudStorage
from lockstep.deployment import deployment, required
from lockstep.gs_url import GsUrl
from lockstep.loopback_ports import free_loopback_ports
from lockstep.operators.gang import GangOperator, gang_of
from lockstep.parsing import parse
from lockstep.pod_plan import plan_gang
from lockstep.run_directory import RunDirectory, run_url
from lockstep.sharding import plan_sharding
from lockstep.training_result import FILE_NAME as RESULT
from lockstep.training_spec import TrainingSpec
from lockstep.worker_pod import checked_pod_options

if TYPE_CHECKING:
    from airflow.sdk.definitions.context import Context

    from lockstep.pod_plan import GangPlan


class DistributedTrainingOperator(GangOperator):
    """Starts one KubernetesPodOperator's pod per worker, and succeeds when every one of them has.

    :param workers: how many; 1 trains with MirroredStrategy, more with MultiWorkerMirroredStrategy.
    :param training: what the trainer is asked, the keys of `lockstep.training_spec.Training`.
    :param image: the trainer's image; default: the deployment's.
    :param command: what the container runs; default: `python -m trainer`.
    :param worker_resources: each worker's `cpu`, `memory` and `gpu` (`lockstep.training_spec.Resources`).
    :param timeouts: seconds: `startup_s`, `run_s`, `rendezvous_s`, `stall_s`, `grace_s`.
    :param env: further environment variables; secrets belong into `pod_options`, by reference.
    :param run_directory: gs:// directory of this run; default: `<run_root>/<dag>/<run>`.
    :param pod_options: any argument of KubernetesPodOperator that describes a pod.
    :param deferrable: wait in the triggerer, holding no worker slot; the same supervision either way.

    Returns what `result.json` says. Errors that another try cannot mend fail the task without a retry.
    """

    template_fields: Sequence[str] = (
        "workers",
        "training",
        "image",
        "command",
        "worker_resources",
        "timeouts",
        "env",
        "run_directory",
        "namespace",
        "service_account",
        "kubernetes_conn_id",
        "pod_options",
    )
    template_fields_renderers = {"training": "json", "worker_resources": "json", "timeouts": "json", "env": "json"}  # noqa: RUF012  (Airflow's own)
    ui_color = "#d8e8f7"

    def __init__(
        self,
        *,
        workers: int | str,
        training: Mapping[str, Any],
        image: str | None = None,
        command: Sequence[str] | None = None,
        worker_resources: Mapping[str, Any] | None = None,
        timeouts: Mapping[str, Any] | None = None,
        env: Mapping[str, str] | None = None,
        run_directory: str | None = None,
        namespace: str | None = None,
        service_account: str | None = None,
        pod_options: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.workers = workers
        self.training = training
        self.image = image
        self.command = command
        self.worker_resources = worker_resources
        self.timeouts = timeouts
        self.env = env
        self.run_directory = run_directory
        self.namespace = namespace
        self.service_account = service_account
        self.pod_options = pod_options

    def execute(self, context: Context) -> dict[str, Any]:
        with told_to_airflow():
            plan = self.plan(context)
            self._refuse_bad_input(plan.spec)
        return self.run_gang(plan, context)

    def plan(self, context: Context) -> GangPlan:
        """The gang as values: what `execute` launches, and what tests assert on."""
        spec = self.spec(context)
        ports = free_loopback_ports(spec.workers) if spec.rendezvous == "loopback" else ()
        return plan_gang(spec, gang_of(context), attempt=1, loopback_ports=ports)

    def spec(self, context: Context) -> TrainingSpec:
        """Everything asked of this task, with the deployment's defaults. Raises InvalidSpec."""
        site = deployment()
        given = {
            "image": self.image or required(site.image, "image"),
            "workers": self.workers,
            "run_directory": self.run_directory or run_url(required(site.run_root, "run_root"), gang_of(context)),
            "training": self.training,
            "command": self.command,
            "namespace": self.namespace or site.namespace,
            "service_account": self.service_account or site.service_account,
            "resources": self.worker_resources,
            "env": self.env,
            "rendezvous": site.rendezvous,
            "timeouts": self.timeouts,
            "pod_options": self.pod_options,
        }
        return parse(TrainingSpec, {key: value for key, value in given.items() if value is not None}, what=self.task_id)

    def conclude(self, context: Context) -> dict[str, Any]:
        """What the chief reports of the training; only the run directory is known of an image that reports nothing."""
        url = self.spec(context).run_directory
        return {"run_directory": url} | (RunDirectory.at(url).read_json(RESULT) or {})

    def _refuse_bad_input(self, spec: TrainingSpec) -> None:
        checked_pod_options(spec.pod_options)
        pattern = GsUrl.parse(spec.training.train_data, what="train_data")
        report = plan_sharding(
            CloudStorage().glob(pattern), workers=spec.workers, policy=spec.training.sharding, source=str(pattern)
        )
        self.log.info("Sharding %s: %s", report.policy, report.reason)
        RunDirectory.at(spec.run_directory).claim(spec.request())
