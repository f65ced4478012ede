"""Looks, before anything expensive, whether a run has what it needs, and reports all that it lacks at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from lockstep.airflow_errors import airflow_error
from lockstep.deployment import chosen_scheduling, deployment, required
from lockstep.errors import InvalidSpec, LockstepError
from lockstep.parsing import unknown_key

if TYPE_CHECKING:
    from airflow.sdk.definitions.context import Context


class PreflightOperator(BaseOperator):
    """Checks the run's parameters, the run root, the cluster and the registry. What is not given is the deployment's.

    :param run_root: gs://bucket/prefix under which runs write; a probe is written and deleted.
    :param writes_to: further gs:// folders that the run writes to; each gets a probe, too.
    :param kubernetes_conn_id: Airflow connection to the cluster.
    :param namespace: where the pods will run; every right that a gang needs there is asked for.
    :param gang_scheduling: who will schedule the gang, if anyone (`lockstep.operators.gang.GangOperator`).
    :param network_policy: whether the gang will have a network policy of its own.
    :param mlflow_tracking_uri: the registry.
    :param model_name: under which the model will be registered; None: nothing will be, and no registry is looked for.
    :param alias: which alias the model will get.

    Fails without a retry unless waiting may help with everything that was found. Returns what was checked.
    """

    template_fields: Sequence[str] = (
        "run_root",
        "writes_to",
        "kubernetes_conn_id",
        "namespace",
        "gang_scheduling",
        "network_policy",
        "mlflow_tracking_uri",
        "model_name",
        "alias",
    )
    ui_color = "#d8e8f7"

    def __init__(
        self,
        *,
        run_root: str | None = None,
        writes_to: Sequence[str] = (),
        kubernetes_conn_id: str | None = None,
        namespace: str | None = None,
        gang_scheduling: str | None = None,
        network_policy: bool | None = None,
        mlflow_tracking_uri: str | None = None,
        model_name: str | None = None,
        alias: str | None = "champion",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.run_root = run_root
        self.writes_to = writes_to
        self.kubernetes_conn_id = kubernetes_conn_id
        self.namespace = namespace
        self.gang_scheduling = gang_scheduling
        self.network_policy = network_policy
        self.mlflow_tracking_uri = mlflow_tracking_uri
        self.model_name = model_name
        self.alias = alias

    def execute(self, context: Context) -> list[str]:
        checks: dict[str, Callable[[], None]] = {
            "parameters": lambda: _check_parameters(context),
            "run root": self._check_run_root,
            **{str(folder): partial(_probe, str(folder), "writes_to") for folder in self.writes_to},
            "cluster": self._check_cluster,
        }
        if self.model_name is not None:
            checks["model name"] = self._check_model_name
            checks["registry"] = self._check_registry
        if failures := dict(self._failures(checks)):
            raise airflow_error(_summary(failures), retryable=all(error.retryable for error in failures.values()))
        return list(checks)

    def _failures(self, checks: dict[str, Callable[[], None]]) -> Iterator[tuple[str, LockstepError]]:
        for name, check in checks.items():
            try:
                check()
            except LockstepError as error:
                self.log.error("%s: %s", name, error)
                yield name, error
            else:
                self.log.info("%s: fine", name)

    def _check_run_root(self) -> None:
        _probe(required(self.run_root or deployment().run_root, "run_root"), "run_root")

    def _check_cluster(self) -> None:
        from lockstep.kubernetes_access import check_access

        site = deployment()
        check_access(
            conn_id=self.kubernetes_conn_id or site.kubernetes_conn_id,
            namespace=self.namespace or site.namespace,
            scheduling=chosen_scheduling(site, self.gang_scheduling),
            network_policy=site.network_policy if self.network_policy is None else self.network_policy,
        )

    def _check_model_name(self) -> None:
        from lockstep.model_registry import check_alias, check_model_name

        check_model_name(str(self.model_name))
        if self.alias is not None:
            check_alias(self.alias)

    def _check_registry(self) -> None:
        from lockstep.model_registry import ModelRegistry

        tracking_uri = self.mlflow_tracking_uri or deployment().mlflow_tracking_uri
        ModelRegistry(required(tracking_uri, "mlflow_tracking_uri")).ping()


def _probe(folder: str, what: str) -> None:
    """Write, read and delete an object there."""
    from lockstep.cloud_storage import CloudStorage
    from lockstep.gs_url import GsUrl

    CloudStorage().probe(GsUrl.parse(folder, what=what))


def _check_parameters(context: Context) -> None:
    """Refuse what Airflow lets pass: keys of the run's configuration that the DAG does not know, and would ignore."""
    conf, params = context["dag_run"].conf or {}, context["dag"].params
    if unknown := [unknown_key(key, params) for key in conf if key not in params]:
        raise InvalidSpec("; ".join(unknown))


def _summary(failures: dict[str, LockstepError]) -> str:
    found = "1 problem" if len(failures) == 1 else f"{len(failures)} problems"
    return f"{found} found before the start: " + " | ".join(f"{name}: {error}" for name, error in failures.items())
