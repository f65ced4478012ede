"""A validated model -> a version in MLflow's registry, exactly one for each digest. The only file that imports mlflow.

MLflow has no unique constraint to lean on, but it numbers versions one after the other, in the transaction that stores
their tags. So whoever created a second version of a digest sees the first, and takes its own back: the lowest stays.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote, urlsplit

from lockstep.errors import InvalidSpec, LockstepError, NotPermitted, RegistrationRefused, RegistryUnavailable

if TYPE_CHECKING:
    from mlflow.entities.model_registry import ModelVersion as StoredVersion
    from mlflow.exceptions import MlflowException
    from mlflow.tracking import MlflowClient

TAG_DIGEST = "lockstep.digest"
TAG_MODEL = "lockstep.model"
DEFAULT_ALIAS = "champion"
_PATIENCE = {  # ours unless the installation says otherwise: MLflow's own add up to minutes for a server that is down
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "3",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",
    "MLFLOW_DISABLE_TELEMETRY": "true",
}
_RETRYABLE_STATUS = {408, 409, 429}


@dataclass(frozen=True, kw_only=True, slots=True)
class Registration:
    """What to register: the model at `source` whose manifest has `digest`, and where it came from.

    `lineage` becomes tags of the version and of the MLflow run that carries `params` and `metrics`.
    """

    name: str
    digest: str
    source: str
    experiment: str
    alias: str | None = DEFAULT_ALIAS
    lineage: Mapping[str, str] = field(default_factory=dict)
    params: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, float] = field(default_factory=dict)
    step: int = 0

    def __post_init__(self) -> None:
        check_model_name(self.name)
        if self.alias is not None:
            check_alias(self.alias)

    @property
    def run_name(self) -> str | None:
        """Of the MLflow run: which run of which DAG it came from."""
        return (
            " ".join(self.lineage[key] for key in ("lockstep.dag_id", "lockstep.run_id") if key in self.lineage) or None
        )

    @property
    def tags(self) -> dict[str, str]:
        """Lineage, and by which digest and model name this registration is found again."""
        return {**self.lineage, TAG_DIGEST: self.digest, TAG_MODEL: self.name}


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelVersion:
    """A version as registered; `alias` is None where it does not point here, `page` where MLflow has no web page."""

    name: str
    version: int
    alias: str | None
    digest: str
    run_id: str | None
    source: str
    page: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Champion:
    """The version that an alias points to, and the metrics that were registered with it."""

    version: int
    metrics: Mapping[str, float]


class ModelRegistry:
    """MLflow's registry at `tracking_uri`.

    Every method may raise RegistryUnavailable (try again), NotPermitted and RegistrationRefused; no message contains
    the password of the tracking URI.
    """

    def __init__(self, tracking_uri: str) -> None:
        self._tracking_uri = tracking_uri
        self.address = _without_secrets(tracking_uri)

    def ping(self) -> None:
        """Ask for anything, to see that the registry answers and lets us in."""
        with self._translated("reaching the registry"):
            self._client.search_registered_models(max_results=1)

    def register(self, registration: Registration) -> ModelVersion:
        """Register once, however often and from wherever it is asked; then move the alias."""
        with self._translated(f"registering {registration.name}"):
            stored = self._find(registration) or self._create(registration)
            alias = self._promote(stored, registration.alias)
        return ModelVersion(
            name=stored.name,
            version=int(stored.version),
            alias=alias,
            digest=registration.digest,
            run_id=stored.run_id or None,
            source=stored.source,
            page=self.page(stored.name, int(stored.version)),
        )

    def champion(self, name: str, alias: str = DEFAULT_ALIAS) -> Champion | None:
        """The version in use, None if there is none yet."""
        with self._translated(f"reading {name}@{alias}"):
            version = self._aliases(name).get(alias)
            if version is None:
                return None
            run_id = self._client.get_model_version(name, str(version)).run_id
            metrics = self._client.get_run(run_id).data.metrics if run_id else {}
        return Champion(version=int(version), metrics=dict(metrics))

    def page(self, name: str, version: int) -> str | None:
        """The web page of a version, if the registry is a server that has one."""
        if not self.address.startswith(("http://", "https://")):
            return None
        return f"{self.address}/#/models/{quote(name, safe='')}/versions/{version}"

    @cached_property
    def _client(self) -> MlflowClient:
        for name, value in _PATIENCE.items():
            os.environ.setdefault(name, value)
        os.environ["MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT"] = "true"  # with the password, into the task's log
        from mlflow.tracking import MlflowClient

        return MlflowClient(tracking_uri=self._tracking_uri, registry_uri=self._tracking_uri)

    def _find(self, registration: Registration) -> StoredVersion | None:
        """The first version that was ever made of this digest."""
        wanted = f"name = '{registration.name}' and tags.`{TAG_DIGEST}` = '{registration.digest}'"
        versions = list(self._client.search_model_versions(wanted))
        return min(versions, key=lambda stored: int(stored.version), default=None)

    def _create(self, registration: Registration) -> StoredVersion:
        self._ensure_model(registration.name)
        run_id = self._recorded_run(registration)
        created = self._client.create_model_version(
            registration.name, registration.source, run_id=run_id, tags=registration.tags, await_creation_for=0
        )
        return self._settle(created, registration)

    def _settle(self, created: StoredVersion, registration: Registration) -> StoredVersion:
        """Take our version back if another one of the same digest came first."""
        first = self._find(registration) or created
        if int(first.version) >= int(created.version):
            return created
        self._client.delete_model_version(created.name, created.version)
        if created.run_id != first.run_id:
            self._client.delete_run(created.run_id)
        return first

    def _ensure_model(self, name: str) -> None:
        with _ignoring("RESOURCE_ALREADY_EXISTS"):
            self._client.create_registered_model(name)

    def _recorded_run(self, registration: Registration) -> str:
        """The id of the MLflow run with params and metrics; one left by a try that ended right after it is used."""
        experiment_id = self._experiment_id(registration.experiment)
        same = f"tags.`{TAG_DIGEST}` = '{registration.digest}' and tags.`{TAG_MODEL}` = '{registration.name}'"
        finished = self._client.search_runs(
            [experiment_id], f"{same} and attributes.status = 'FINISHED'", max_results=1
        )
        return str(finished[0].info.run_id) if finished else self._record(experiment_id, registration)

    def _record(self, experiment_id: str, registration: Registration) -> str:
        from mlflow.entities import Metric, Param

        run_id: str = self._client.create_run(
            experiment_id, tags=registration.tags, run_name=registration.run_name
        ).info.run_id
        now_ms = int(time.time() * 1000)
        self._client.log_batch(
            run_id,
            metrics=[Metric(name, value, now_ms, registration.step) for name, value in registration.metrics.items()],
            params=[Param(name, str(value)) for name, value in registration.params.items()],
        )
        self._client.set_terminated(run_id)
        return run_id

    def _experiment_id(self, name: str) -> str:
        with _ignoring("RESOURCE_ALREADY_EXISTS"):
            if self._client.get_experiment_by_name(name) is None:
                self._client.create_experiment(name)
        return str(self._client.get_experiment_by_name(name).experiment_id)

    def _promote(self, stored: StoredVersion, alias: str | None) -> str | None:
        """Point the alias here unless a later version has it: an old run, repeated, must not bring its model back."""
        if alias is None:
            return None
        current = int(self._aliases(stored.name).get(alias, 0))
        if current < int(stored.version):
            self._client.set_registered_model_alias(stored.name, alias, str(stored.version))
        return alias if current <= int(stored.version) else None

    def _aliases(self, name: str) -> Mapping[str, str]:
        with _ignoring("RESOURCE_DOES_NOT_EXIST"):
            aliases: Mapping[str, str] = self._client.get_registered_model(name).aliases
            return aliases
        return {}

    @contextmanager
    def _translated(self, doing: str) -> Iterator[None]:
        from mlflow.exceptions import MlflowException

        try:
            yield
        except MlflowException as error:
            raise self._explained(error, doing) from None  # the original may quote the password

    def _explained(self, error: MlflowException, doing: str) -> LockstepError:
        status = error.get_http_status_code()
        what = f"{doing} at {self.address}"
        evidence = f"{error.error_code}: {self._redacted(str(error))}"
        if status in (401, 403):
            return NotPermitted(f"{what}: not allowed ({evidence}); give the task credentials for this registry")
        if status >= 500 or status in _RETRYABLE_STATUS:
            return RegistryUnavailable(f"{what}: no proper answer ({evidence}); try again")
        return RegistrationRefused(f"{what}: refused ({evidence}); correct the request")

    def _redacted(self, message: str) -> str:
        password = urlsplit(self._tracking_uri).password or ""
        message = message.replace(self._tracking_uri, self.address).splitlines()[0][:400]
        for secret in filter(None, {password, unquote(password)}):
            message = message.replace(secret, "***")
        return message


def check_model_name(name: str) -> str:
    """`name` if MLflow takes it and it can be searched for.

    Raises:
        InvalidSpec: it is empty or contains a slash, a colon or a quote.
    """
    if not name.strip() or re.search(r"[/:'\"`\\]|^\.|\.\.", name):
        raise InvalidSpec(f"model name {name!r}: use letters, digits, blanks, dots, dashes and underscores")
    return name


def check_alias(alias: str) -> str:
    """`alias` if MLflow takes it.

    Raises:
        InvalidSpec: it is none, or one that MLflow keeps for itself.
    """
    if not re.fullmatch(r"[\w-]{1,255}", alias) or re.fullmatch(r"latest|v\d+", alias, re.IGNORECASE):
        raise InvalidSpec(f"alias {alias!r}: use letters, digits, dashes and underscores, but not 'latest' or 'v1'")
    return alias


def _without_secrets(uri: str) -> str:
    """`uri` without user, password and query: fit for messages, links and XComs."""
    parts = urlsplit(uri)
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}".rstrip("/") if parts.scheme else uri


@contextmanager
def _ignoring(code: str) -> Iterator[None]:
    from mlflow.exceptions import MlflowException

    try:
        yield
    except MlflowException as error:
        if error.error_code != code:
            raise
