"""What a pod must look like: defaults, validation, and which fields a stored pod may still change.

The messages are Kubernetes' own. What this server cannot run (volumes, several containers, probes, restarts) is
refused by field, so that nothing is silently ignored.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator

from lockstep.local.kube.api_object import Json
from lockstep.local.kube.image import normalised
from lockstep.local.kube.metadata_rules import dns_label_errors, key_errors
from lockstep.local.kube.quantity import amount
from lockstep.local.kube.status_error import (
    FieldError,
    bad_request,
    forbidden_field,
    invalid_value,
    not_supported,
    required,
)

_NOT_RUN_HERE = "the one-machine API of Lockstep cannot run this; use a real cluster"
_REFUSED_IN_SPEC = ("initContainers", "ephemeralContainers", "volumes", "resourceClaims", "readinessGates")
_REFUSED_IN_CONTAINER = (
    "volumeMounts",
    "volumeDevices",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
    "stdin",
    "tty",
)
_MUTABLE = ("activeDeadlineSeconds", "schedulingGates", "terminationGracePeriodSeconds", "tolerations")
_KEPT_WHEN_EMPTY = ("affinity", "dnsConfig", "securityContext")
_DROPPED_WHEN_FALSE = ("hostIPC", "hostNetwork", "hostPID", "stdin", "stdinOnce", "tty")
_LONGEST_DEADLINE_S = 2**31 - 1
_STAY_ON_LOST_NODE_S = 300
_LOST_NODE_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_QUANTITY_TEXT = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"


def with_pod_defaults(pod: Json) -> Json:
    """Return the pod as the API server stores it: every default written out, phase Pending."""
    given = copy.deepcopy(pod.get("spec", {}))
    account = given.get("serviceAccountName") or given.get("serviceAccount") or "default"
    spec = {
        "dnsPolicy": "ClusterFirst",
        "enableServiceLinks": True,
        "preemptionPolicy": "PreemptLowerPriority",
        "priority": 0,
        "restartPolicy": "Always",
        "schedulerName": "default-scheduler",
        "securityContext": {},
        "terminationGracePeriodSeconds": 30,
        **_without_empty(given),
        "serviceAccount": account,
        "serviceAccountName": account,
        "containers": [_with_container_defaults(each) for each in given.get("containers", ())],
        "tolerations": _with_lost_node_tolerations(given.get("tolerations", [])),
    }
    spec.pop("nodeName", None)
    return pod | {"spec": spec, "status": {"phase": "Pending", "qosClass": _qos_class(spec)}}


def _without_empty(given: Json) -> Json:
    """Return `given` as it is stored: what is as good as not said goes, parts that were said to be empty stay."""
    unsaid = {key for key, value in given.items() if value in ([], {}) and key not in _KEPT_WHEN_EMPTY}
    unsaid |= {key for key in _DROPPED_WHEN_FALSE if given.get(key) is False}
    return {key: value for key, value in given.items() if key not in unsaid}


def _with_container_defaults(container: Json) -> Json:
    is_latest = normalised(container.get("image", "")).endswith(":latest")
    defaults = {
        "imagePullPolicy": "Always" if is_latest else "IfNotPresent",
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
    }
    completed: Json = defaults | _without_empty(container)
    completed["resources"] = _with_requests(container.get("resources", {}))
    for entry in completed.get("env", ()):
        if "fieldRef" in entry.get("valueFrom", {}):
            entry["valueFrom"]["fieldRef"].setdefault("apiVersion", "v1")
    for port in completed.get("ports", ()):
        port.setdefault("protocol", "TCP")
    return completed


def _with_lost_node_tolerations(given: list[Json]) -> list[Json]:
    """Return the tolerations with those that every pod gets which says nothing about a lost node."""
    added = [
        {"key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _STAY_ON_LOST_NODE_S}
        for taint in _LOST_NODE_TAINTS
        if not any(_tolerates(each, taint) for each in given)
    ]
    return [*given, *added]


def _tolerates(toleration: Json, taint: str) -> bool:
    return toleration.get("key") in (None, "", taint) and toleration.get("effect") in (None, "", "NoExecute")


def _with_requests(resources: Json) -> Json:
    if not resources.get("limits"):
        return {key: value for key, value in resources.items() if value}
    return resources | {"requests": resources["limits"] | resources.get("requests", {})}


def _qos_class(spec: Json) -> str:
    resources = [container["resources"] for container in spec["containers"]]
    if not any(resources):
        return "BestEffort"
    limited = all({"cpu", "memory"} <= each.get("limits", {}).keys() for each in resources)
    equal = all(each.get("limits") == each.get("requests") for each in resources)
    return "Guaranteed" if limited and equal else "Burstable"


def pod_errors(pod: Json) -> Iterator[FieldError]:
    """Yield what is wrong with a new pod's spec (defaults are there already); raises a 400 for a bad quantity."""
    spec = pod["spec"]
    if not spec["containers"]:
        yield required("spec.containers")
    for index, container in enumerate(spec["containers"]):
        yield from _container_errors(f"spec.containers[{index}]", container)
    yield from _scalar_errors(spec)
    yield from _refusals(spec)


def _scalar_errors(spec: Json) -> Iterator[FieldError]:
    if spec["restartPolicy"] not in ("Always", "OnFailure", "Never"):
        yield not_supported("spec.restartPolicy", spec["restartPolicy"], ("Always", "OnFailure", "Never"))
    elif spec["restartPolicy"] != "Never":
        yield forbidden_field("spec.restartPolicy", f"{spec['restartPolicy']}: {_NOT_RUN_HERE}, or Never")
    if spec["terminationGracePeriodSeconds"] < 0:
        yield invalid_value(
            "spec.terminationGracePeriodSeconds",
            spec["terminationGracePeriodSeconds"],
            "must be greater than or equal to 0",
        )
    if not 1 <= spec.get("activeDeadlineSeconds", 1) <= _LONGEST_DEADLINE_S:
        text = f"must be between 1 and {_LONGEST_DEADLINE_S}, inclusive"
        yield invalid_value("spec.activeDeadlineSeconds", spec["activeDeadlineSeconds"], text)
    for field in ("hostname", "subdomain"):
        if field in spec:
            yield from dns_label_errors(f"spec.{field}", spec[field])
    for key in spec.get("nodeSelector", {}):
        yield from key_errors("spec.nodeSelector", key)


def _refusals(spec: Json) -> Iterator[FieldError]:
    for field in _REFUSED_IN_SPEC:
        if spec.get(field):
            yield forbidden_field(f"spec.{field}", _NOT_RUN_HERE)
    if len(spec["containers"]) > 1:
        yield forbidden_field("spec.containers", f"more than one container: {_NOT_RUN_HERE}")
    for index, container in enumerate(spec["containers"]):
        for field in _REFUSED_IN_CONTAINER:
            if container.get(field):
                yield forbidden_field(f"spec.containers[{index}].{field}", _NOT_RUN_HERE)


def _container_errors(field: str, container: Json) -> Iterator[FieldError]:
    if name := container.get("name"):
        yield from dns_label_errors(f"{field}.name", name)
    else:
        yield required(f"{field}.name")
    if not container.get("image"):
        yield required(f"{field}.image")
    if container["terminationMessagePolicy"] not in ("File", "FallbackToLogsOnError"):
        path, given = f"{field}.terminationMessagePolicy", container["terminationMessagePolicy"]
        yield not_supported(path, given, ("FallbackToLogsOnError", "File"))
    for index, entry in enumerate(container.get("env", ())):
        yield from _env_errors(f"{field}.env[{index}]", entry)
    yield from _resource_errors(f"{field}.resources", container["resources"])


def _env_errors(field: str, entry: Json) -> Iterator[FieldError]:
    if not entry.get("name"):
        yield required(f"{field}.name")
    elif "=" in entry["name"]:
        text = "a valid environment variable name must consist only of printable ASCII characters other than '='"
        yield invalid_value(f"{field}.name", entry["name"], text)
    if entry.get("value") and entry.get("valueFrom"):
        yield invalid_value(f"{field}.valueFrom", "", "may not be specified when `value` is not empty")


def _resource_errors(field: str, resources: Json) -> Iterator[FieldError]:
    limits, requests = resources.get("limits", {}), resources.get("requests", {})
    for name, quantity in (*limits.items(), *requests.items()):
        if _amount(quantity) < 0:
            yield invalid_value(f"{field}[{name}]", quantity, "must be greater than or equal to 0")
    for name in requests.keys() & limits.keys():
        if _amount(requests[name]) > _amount(limits[name]):
            text = f"must be less than or equal to {name} limit of {limits[name]}"
            yield invalid_value(f"{field}.requests", requests[name], text)


def _amount(quantity: str) -> float:
    try:
        return float(amount(quantity))
    except ValueError as error:
        raise bad_request(f'Pod in version "v1" cannot be handled as a Pod: {_QUANTITY_TEXT}') from error


def pod_update_errors(before: Json, after: Json) -> Iterator[FieldError]:
    """Yield what an update changes that is fixed once a pod exists."""
    fixed_before = {key: value for key, value in before["spec"].items() if key not in _MUTABLE}
    fixed_after = {key: value for key, value in after["spec"].items() if key not in _MUTABLE}
    if fixed_before != fixed_after:
        yield forbidden_field(
            "spec",
            "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
            "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
            "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
        )
    added = {each["name"] for each in after["spec"].get("schedulingGates", ())} - {
        each["name"] for each in before["spec"].get("schedulingGates", ())
    }
    if added:
        yield forbidden_field("spec.schedulingGates", "only deletion is allowed, but found new scheduling gate")
