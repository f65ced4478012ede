"""WorkerPod -> KubernetesPodOperator -> the pod's manifest. The only file that knows that operator's vocabulary.

Every worker is one KubernetesPodOperator: whatever pod that operator can make, a worker can be. Running the pod is left
to the supervisor, because the operator's own life cycle assumes one pod for a task.
"""

from __future__ import annotations

import inspect
import json
import logging
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from lockstep import names
from lockstep.errors import InvalidSpec
from lockstep.parsing import to_json, unknown_key
from lockstep.pod_security import RESTRICTED

if TYPE_CHECKING:
    from airflow.providers.cncf.kubernetes.operators.pod import KubernetesPodOperator

    from lockstep.pod_plan import GangPlan, WorkerPod

CONTAINER = "worker"
_QUIET = "lockstep.worker_pod"
# Airflow puts its own prefix before the name. The operator writes a line for every pod that it describes.
logging.getLogger(f"airflow.task.operators.{_QUIET}").setLevel(logging.WARNING)
NO_SIDECAR = {"sidecar.istio.io/inject": "false"}
"""Istio's proxy breaks TensorFlow's gRPC (tensorflow#43838). Istio reads the label; older ones read the annotation."""

_PLANNED = frozenset(
    {"name", "namespace", "image", "cmds", "env_vars", "hostname", "subdomain", "random_name_suffix"}
    | {"service_account_name", "container_resources", "termination_grace_period", "termination_message_policy"}
    | {"base_container_name"}
)
_LIFE_CYCLE = frozenset(
    {"do_xcom_push", "deferrable", "durable", "reattach_on_restart", "kubernetes_conn_id", "in_cluster", "config_file"}
    | {"cluster_context", "startup_timeout_seconds", "startup_check_interval_seconds", "schedule_timeout_seconds"}
    | {"get_logs", "container_logs", "init_container_logs", "container_name_log_prefix_enabled", "log_formatter"}
    | {"log_events_on_failure", "log_events_on_startup", "log_pod_spec_on_failure", "logging_interval", "poll_interval"}
    | {"base_container_status_polling_interval", "callbacks", "progress_callback", "on_finish_action", "on_kill_action"}
    | {"is_delete_operator_pod", "skip_on_exit_code", "trigger_kwargs", "xcom_sidecar_container_security_context"}
)


def pod_manifest(plan: GangPlan, worker: WorkerPod, owner_uid: str) -> dict[str, Any]:
    """The pod as the API wants it, owned by the gang's Service. `owner_uid` is the Service's, and names the launch."""
    from kubernetes.client import ApiClient

    pod = worker_operator(plan, worker).build_pod_request_obj(dry_run=True)
    manifest: dict[str, Any] = ApiClient().sanitize_for_serialization(pod)
    manifest["metadata"]["labels"][names.LABEL_LAUNCH] = owner_uid
    manifest["spec"] = plan.pod_spec | manifest["spec"]
    return owned(manifest, plan, owner_uid)


def owned(manifest: dict[str, Any], plan: GangPlan, owner_uid: str) -> dict[str, Any]:
    """`manifest` as an object that goes with the gang's Service, whose UID is `owner_uid`."""
    owner = {"apiVersion": "v1", "kind": "Service", "name": plan.service, "uid": owner_uid, "blockOwnerDeletion": False}
    return manifest | {"metadata": manifest["metadata"] | {"ownerReferences": [owner]}}


def service_manifest(plan: GangPlan) -> dict[str, Any]:
    """The headless Service: gives the pods their names in DNS and owns them.

    Addresses are published before a pod is ready, because the workers look each other up in order to become ready.
    The annotations say whose the gang is, for which labels are too short, and what is to be kept of it.
    """
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": plan.service,
            "namespace": plan.spec.namespace,
            "labels": names.gang_labels(plan.gang),
            "annotations": {
                names.ANNOTATION_TASK_INSTANCE: json.dumps(to_json(plan.gang), sort_keys=True),
                names.ANNOTATION_CLEAN_UP: plan.spec.clean_up,
            },
        },
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {names.LABEL_GANG: plan.gang.name},
            "ports": [{"name": "tensorflow", "port": plan.spec.port, "protocol": "TCP"}],
        },
    }


def worker_operator(plan: GangPlan, worker: WorkerPod) -> KubernetesPodOperator:
    """The operator that describes this worker's pod."""
    from airflow.providers.cncf.kubernetes.operators.pod import KubernetesPodOperator
    from kubernetes.client import V1ResourceRequirements

    spec, shape = plan.spec, plan.spec.shape(worker.member.role)
    quantities = shape.resources.quantities()
    options = {"automount_service_account_token": False} | RESTRICTED | checked_pod_options(shape.pod_options)
    return KubernetesPodOperator(
        task_id=worker.name,
        logger_name=_QUIET,
        name=worker.name,
        namespace=spec.namespace,
        image=spec.image,
        cmds=list(shape.command),
        env_vars=worker.env,
        labels=NO_SIDECAR | options.pop("labels", {}) | worker.labels,
        annotations=NO_SIDECAR | options.pop("annotations", {}) | worker.annotations,
        hostname=worker.name,
        subdomain=plan.service,
        service_account_name=spec.service_account,
        container_resources=V1ResourceRequirements(requests=quantities, limits=quantities) if quantities else None,
        termination_grace_period=spec.timeouts.grace_s,
        termination_message_policy="FallbackToLogsOnError",
        base_container_name=CONTAINER,
        random_name_suffix=False,
        do_xcom_push=False,
        deferrable=False,
        durable=False,
        **options,
    )


def checked_pod_options(options: Mapping[str, Any], what: str = "pod_options") -> dict[str, Any]:
    """`options` if KubernetesPodOperator takes every one of them; raises InvalidSpec otherwise."""
    valid = pod_option_names()
    for key in options:
        if key in _PLANNED:
            raise InvalidSpec(f"{what}: {key!r} is planned for each worker; use the operator's own arguments")
        if key in _LIFE_CYCLE:
            raise InvalidSpec(f"{what}: {key!r} does not describe a pod; the gang has a life cycle of its own")
        if key not in valid:
            raise InvalidSpec(f"{what}: {unknown_key(key, valid)}")
    return dict(options)


@cache
def pod_option_names() -> frozenset[str]:
    from airflow.providers.cncf.kubernetes.operators.pod import KubernetesPodOperator

    described = frozenset(inspect.signature(KubernetesPodOperator.__init__).parameters) - {"self", "kwargs"}
    return described - _PLANNED - _LIFE_CYCLE
