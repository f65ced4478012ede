"""The status that a kubelet reports: phase, conditions and the state of the one container, as values.

Pure: what happened goes in, the new `status` comes out.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lockstep.local.kube.api_object import Json, generation_of, timestamp, uid_of

ADDRESS = "127.0.0.1"


@dataclass(frozen=True, kw_only=True, slots=True)
class Ended:
    """How a container ended. A container that never started has `started_at` None, and exit code 128."""

    exit_code: int
    reason: str
    message: str
    started_at: str | None
    finished_at: str


def with_condition(
    status: Json, kind: str, is_true: bool, reason: str = "", message: str = "", *, observed: int | None = None
) -> Json:
    """Return the status with one condition set; its transition time moves only when its truth does.

    `observed` is the generation of the object that was looked at, where the one who reports tells it.
    """
    state = "True" if is_true else "False"
    before = condition_of(status, kind) or {}
    changed = before.get("status") != state
    condition = {"type": kind, "status": state, "lastProbeTime": None}
    condition["lastTransitionTime"] = timestamp() if changed else before["lastTransitionTime"]
    told: Json = {"reason": reason, "message": message, "observedGeneration": observed}
    condition |= {key: value for key, value in told.items() if value}
    others = [each for each in status.get("conditions", ()) if each["type"] != kind]
    return status | {"conditions": [*others, condition]}


def condition_of(status: Json, kind: str) -> Json | None:
    return next((each for each in status.get("conditions", ()) if each["type"] == kind), None)


def is_terminal(pod: Json) -> bool:
    """True once nothing of the pod will run any more."""
    return pod["status"].get("phase") in ("Succeeded", "Failed")


def waiting_status(pod: Json, reason: str, message: str = "") -> Json:
    """Return the status of a bound pod whose container is not there yet."""
    state: Json = {"reason": reason} | ({"message": message} if message else {})
    status = _on_node(pod) | {"phase": "Pending", "containerStatuses": [_container(pod, {"waiting": state})]}
    if reason != "ContainerCreating":  # the pod has its address by the time something can be wrong with a container
        status = with_addresses(status)
    return _with_readiness(status, ready=False, reason="ContainersNotReady", message=_not_ready(pod))


def running_status(pod: Json, started_at: str) -> Json:
    container = _container(pod, {"running": {"startedAt": started_at}}, started=True)
    status = _on_node(pod) | {"phase": "Running", "containerStatuses": [container]}
    return _with_readiness(with_addresses(status), ready=True)


def ended_status(pod: Json, ended: Ended, reason: str = "", message: str = "") -> Json:
    """Return the status of a pod whose container ended; `reason` is the pod's own, such as DeadlineExceeded."""
    terminated: Json = {
        "exitCode": ended.exit_code,
        "reason": ended.reason,
        "startedAt": ended.started_at or "1970-01-01T00:00:00Z",
        "finishedAt": ended.finished_at,
        "containerID": container_id(pod),
    }
    if ended.message:
        terminated["message"] = ended.message
    succeeded = ended.exit_code == 0 and not reason
    status = _on_node(pod) | {"phase": "Succeeded" if succeeded else "Failed"}
    status |= {"containerStatuses": [_container(pod, {"terminated": terminated})]}
    status |= {key: value for key, value in (("reason", reason), ("message", message)) if value}
    return _with_readiness(status, ready=False, reason="PodCompleted" if succeeded else "PodFailed")


def failed_status(pod: Json, reason: str, message: str) -> Json:
    """Return the status of a pod that failed before it had a container."""
    status = _on_node(pod) | {"phase": "Failed", "reason": reason, "message": message}
    return _with_readiness(status, ready=False, reason="PodFailed")


def with_addresses(status: Json) -> Json:
    return status | {"podIP": ADDRESS, "podIPs": [{"ip": ADDRESS}]}


def container_id(pod: Json) -> str:
    return f"lockstep://{uid_of(pod)}"


def _on_node(pod: Json) -> Json:
    status = {"startTime": timestamp()} | pod["status"] | {"hostIP": ADDRESS, "hostIPs": [{"ip": ADDRESS}]}
    return status | {"observedGeneration": generation_of(pod)}


def _container(pod: Json, state: Json, *, started: bool = False) -> Json:
    spec = pod["spec"]["containers"][0]
    status = {"name": spec["name"], "image": spec["image"], "imageID": "", "restartCount": 0, "lastState": {}}
    if "waiting" not in state:
        status |= {"imageID": f"lockstep-local/{spec['image']}", "containerID": container_id(pod)}
        status |= {"resources": spec["resources"]}
    if requests := status.get("resources", {}).get("requests"):
        status |= {"allocatedResources": requests}
    return status | {"ready": started, "started": started, "state": state}


def _with_readiness(status: Json, *, ready: bool, reason: str = "", message: str = "") -> Json:
    status = _with_sandbox(status)
    status = with_condition(status, "Initialized", True, reason if reason == "PodCompleted" else "")
    for kind in ("Ready", "ContainersReady"):
        status = with_condition(status, kind, ready, reason, message)
    observed = {"observedGeneration": status["observedGeneration"]}
    return status | {"conditions": [each | observed for each in status["conditions"]]}


def _with_sandbox(status: Json) -> Json:
    kind = "PodReadyToStartContainers"
    if status["phase"] in ("Pending", "Running"):
        return with_condition(status, kind, True)
    return with_condition(status, kind, False, "PodSandboxNotReady", "pod sandbox is not ready")


def _not_ready(pod: Json) -> str:
    names: Iterable[str] = (each["name"] for each in pod["spec"]["containers"])
    return f"containers with unready status: [{' '.join(names)}]"
