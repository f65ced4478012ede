"""V1Pod -> what we saw of it. The one place that reads a pod's status; nothing above it sees a Kubernetes object.

Works on anything shaped like `V1Pod` (the synchronous and the asynchronous client have each their own class).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from lockstep import names

ENDED = ("Succeeded", "Failed")
DISRUPTIONS = ("DisruptionTarget", "TerminationTarget")


@dataclass(frozen=True, kw_only=True, slots=True)
class PodSnapshot:
    """A worker's pod at one moment. Moments are seconds since the epoch; texts are empty where nothing was said.

    `reason` and `message` are those of the ended container, or of the pod where no container says anything;
    `waiting_reason` and `waiting_message` tell why its container has not started, `unscheduled` why it has no node.
    `launch` is the UID of the Service that owns it; `deletion_due` is when the grace of a pod that is being deleted
    ends. A `queued` pod is held back until there is room for the whole gang.
    """

    name: str
    uid: str
    rank: int
    attempt: int
    phase: str
    role: str = "worker"
    role_index: int | None = None
    launch: str = ""
    node: str = ""
    spec: str = ""
    created_at: float | None = None
    started: bool = False
    started_at: float | None = None
    exit_code: int | None = None
    reason: str = ""
    message: str = ""
    finished_at: float | None = None
    waiting_reason: str = ""
    waiting_message: str = ""
    unscheduled: str = ""
    disruption: str = ""
    memory_limit: str = ""
    deletion_due: float | None = None
    queued: bool = False

    @property
    def title(self) -> str:
        """What the pod is in its gang: `worker 2`, `ps 0`."""
        return f"{self.role} {self.rank if self.role_index is None else self.role_index}"

    @property
    def ended(self) -> bool:
        return self.phase in ENDED

    @property
    def succeeded(self) -> bool:
        """Positive proof only: the pod's phase alone does not say that our container returned 0."""
        return self.phase == "Succeeded" and self.exit_code == 0

    @property
    def failed(self) -> bool:
        return self.phase == "Failed" or (self.phase == "Succeeded" and self.exit_code != 0)


def snapshot(pod: Any) -> PodSnapshot:
    """What a `V1Pod` of ours says now. Raises KeyError if the pod does not carry Lockstep's labels."""
    metadata, status = pod.metadata, pod.status
    container = _container(pod)
    state = container.state if container else None
    terminated = state.terminated if state else None
    waiting = state.waiting if state else None
    return PodSnapshot(
        name=metadata.name,
        uid=metadata.uid,
        rank=int(metadata.labels[names.LABEL_RANK]),
        attempt=int(metadata.labels[names.LABEL_ATTEMPT]),
        phase=status.phase or "Unknown",
        role=metadata.labels.get(names.LABEL_ROLE, "worker"),
        role_index=int(metadata.labels.get(names.LABEL_ROLE_INDEX, metadata.labels[names.LABEL_RANK])),
        launch=metadata.labels.get(names.LABEL_LAUNCH, ""),
        node=pod.spec.node_name or "",
        spec=(metadata.annotations or {}).get(names.ANNOTATION_SPEC, ""),
        created_at=_epoch(metadata.creation_timestamp),
        started=bool(state and (state.running or terminated)),
        started_at=_epoch(state.running.started_at if state.running else terminated.started_at if terminated else None)
        if state
        else None,
        exit_code=terminated.exit_code if terminated else None,
        reason=(terminated.reason if terminated else None) or status.reason or "",
        message=(terminated.message if terminated else None) or status.message or "",
        finished_at=_epoch(terminated.finished_at) if terminated else None,
        waiting_reason=(waiting.reason if waiting else None) or "",
        waiting_message=(waiting.message if waiting else None) or "",
        unscheduled=_unscheduled(status),
        disruption=_disruption(status),
        memory_limit=_memory_limit(pod),
        deletion_due=_epoch(metadata.deletion_timestamp),
        queued=_queued(pod),
    )


def _container(pod: Any) -> Any:
    """The first container is the worker's; sidecars, where an admission webhook adds some, come after it."""
    wanted = pod.spec.containers[0].name
    return next((status for status in pod.status.container_statuses or () if status.name == wanted), None)


def _queued(pod: Any) -> bool:
    """Held by a gate, as queues do it, or not given a node by a scheduler that places a gang whole or not at all."""
    placed_whole = names.LABEL_GANG_SCHEDULER in pod.metadata.labels
    ended = pod.status.phase in ENDED
    return bool(pod.spec.scheduling_gates) or (placed_whole and not pod.spec.node_name and not ended)


def _conditions(status: Any, *types: str) -> list[Any]:
    return [condition for condition in status.conditions or () if condition.type in types]


def _unscheduled(status: Any) -> str:
    return next((c.message or c.reason or "" for c in _conditions(status, "PodScheduled") if c.status == "False"), "")


def _disruption(status: Any) -> str:
    disruptions = (condition for condition in _conditions(status, *DISRUPTIONS) if condition.status == "True")
    return next((": ".join(filter(None, (c.reason or c.type, c.message))) for c in disruptions), "")


def _memory_limit(pod: Any) -> str:
    resources = pod.spec.containers[0].resources
    limits = resources.limits if resources else None
    return (limits or {}).get("memory", "")


def _epoch(moment: datetime | None) -> float | None:
    return moment.timestamp() if moment else None
