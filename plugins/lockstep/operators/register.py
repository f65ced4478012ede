"""Makes a validated model a version in the registry, and tells downstream DAGs by an asset event."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset, BaseOperator

from lockstep.airflow_errors import told_to_airflow
from lockstep.deployment import deployment, required
from lockstep.errors import RegistrationRefused
from lockstep.links import ModelVersionLink, RunDirectoryLink
from lockstep.parsing import parse
from lockstep.run_directory import SPEC, RunDirectory

if TYPE_CHECKING:
    from airflow.sdk.definitions.context import Context

    from lockstep.model_registry import ModelVersion, Registration


class RegisterModelOperator(BaseOperator):
    """Registers exactly once, however often it is tried; each Asset among the `outlets` gets an event with the version.

    :param model_name: of the registered model.
    :param validated: what ValidateCheckpointOperator returned: `validate.output`.
    :param alias: moved to this version after all else has succeeded, unless a later version has it; None: no alias.
    :param mlflow_tracking_uri: the registry; default: the deployment's.
    :param experiment: MLflow experiment that collects the runs; default: the DAG's id.

    Returns `name`, `version`, `alias`, `digest`, `run_id`, `source` and `page`. Refuses, without a retry, a model that
    is not any more what was validated.
    """

    template_fields: Sequence[str] = ("model_name", "validated", "alias", "mlflow_tracking_uri", "experiment")
    template_fields_renderers = {"validated": "json"}  # noqa: RUF012 - Airflow reads a plain dict
    operator_extra_links = (ModelVersionLink(), RunDirectoryLink())
    ui_color = "#d8e8f7"

    def __init__(
        self,
        *,
        model_name: str,
        validated: Mapping[str, Any],
        alias: str | None = "champion",
        mlflow_tracking_uri: str | None = None,
        experiment: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.model_name = model_name
        self.validated = validated
        self.alias = alias
        self.mlflow_tracking_uri = mlflow_tracking_uri
        self.experiment = experiment
        self.page: str | None = None

    def directory_of(self, ti: object) -> str | None:
        """The run directory that was validated (`lockstep.links`)."""
        return self.validated.get("run_directory") if isinstance(self.validated, Mapping) else None

    def execute(self, context: Context) -> dict[str, Any]:
        from lockstep.model_registry import ModelRegistry

        with told_to_airflow():
            validated = parse(_Validated, _known(self.validated or {}), what="validated")
            run = RunDirectory.at(validated.run_directory)
            _refuse_if_changed(run, validated)
            tracking_uri = self.mlflow_tracking_uri or deployment().mlflow_tracking_uri
            registry = ModelRegistry(required(tracking_uri, "mlflow_tracking_uri"))
            version = registry.register(self._registration(run, validated, context))
        self.page = version.page
        self._announce(version, context)
        return asdict(version) | {"run_directory": validated.run_directory}

    def _registration(self, run: RunDirectory, validated: _Validated, context: Context) -> Registration:
        from lockstep.model_registry import Registration

        spec = run.read_json(SPEC) or {}
        return Registration(
            name=self.model_name,
            digest=validated.digest,
            source=str(run.url / validated.model),
            experiment=self.experiment or context["ti"].dag_id,
            alias=self.alias,
            lineage=_lineage(run, validated, spec, context),
            params=_flat(spec.get("training", {})) | {"workers": spec.get("workers")},
            metrics=validated.metrics,
            step=validated.step,
        )

    def _announce(self, version: ModelVersion, context: Context) -> None:
        said = f"is {version.alias}" if version.alias else "carries no alias"
        self.log.info("%s version %d %s: %s", version.name, version.version, said, version.page or version.source)
        for asset in (outlet for outlet in self.outlets if isinstance(outlet, Asset)):
            context["outlet_events"][asset].extra = asdict(version)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Validated:
    """What this operator needs of what validation returned."""

    digest: str
    step: int
    metrics: dict[str, float]
    checkpoint: str
    model: str
    run_directory: str


def _known(validated: Mapping[str, Any]) -> dict[str, Any]:
    return {name: validated[name] for name in _Validated.__dataclass_fields__ if name in validated}


def _refuse_if_changed(run: RunDirectory, validated: _Validated) -> None:
    found = run.digest(validated.model)
    if found != validated.digest:
        raise RegistrationRefused(
            f"{run.url / validated.model} was validated as {validated.digest}, but storage now has "
            f"{found or 'no manifest'} there: clear the validating task, so that what is registered has been checked"
        )


def _lineage(run: RunDirectory, validated: _Validated, spec: Mapping[str, Any], context: Context) -> dict[str, str]:
    """Where the model came from, as MLflow tags."""
    ti, training = context["ti"], spec.get("training", {})
    content = run.storage.read(run.url / SPEC) or b""
    return {
        "lockstep.dag_id": ti.dag_id,
        "lockstep.run_id": ti.run_id,
        "lockstep.task_id": ti.task_id,
        "lockstep.run_directory": str(run.url),
        "lockstep.checkpoint": validated.checkpoint,
        "lockstep.train_data": str(training.get("train_data")),
        "lockstep.eval_data": str(training.get("eval_data")),
        "lockstep.spec_digest": "sha256:" + hashlib.sha256(content).hexdigest(),
        "lockstep.step": str(validated.step),
    }


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in values.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return flat
