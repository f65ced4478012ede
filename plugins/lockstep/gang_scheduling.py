"""How a gang is made known to what schedules it whole: Kueue, Volcano, coscheduling, or Kubernetes itself. Pure.

Says what each worker's pod carries and which PodGroup must be there before the pods, by the field names that the
projects publish. Creating them is left to the cluster.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lockstep import names
from lockstep.gang_object import GangObject
from lockstep.training_spec import GangScheduling, TrainingSpec

KUEUE_MANAGED = "kueue.x-k8s.io/managed"
POD_GROUP_APIS: Mapping[GangScheduling, str] = {
    "volcano": "scheduling.volcano.sh",
    "coscheduling": "scheduling.x-k8s.io",
    "native": "scheduling.k8s.io",
}
"""The API groups whose PodGroups we have to make; Kueue makes its groups itself."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Membership:
    """What makes a pod one of its group: additions to its manifest, and the group where we have to make it."""

    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    pod_spec: dict[str, Any] = field(default_factory=dict)
    pod_group: GangObject | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Group:
    """A gang as its scheduler sees it: `size` pods under one name; `labels` are those of the gang's own objects."""

    name: str
    size: int
    labels: Mapping[str, str]


def membership(spec: TrainingSpec, group: Group) -> Membership:
    """What all pods of the group have in common."""
    match spec.gang_scheduling:
        case None:
            return Membership()
        case "kueue":
            return _kueue(spec, group)
        case "volcano":
            return _volcano(spec, group)
        case "coscheduling":
            return _coscheduling(spec, group)
        case "native":
            return _native(spec, group)


def ignored(spec: TrainingSpec, pod_labels: Mapping[str, str]) -> str | None:
    """What is wrong where a pod that was to be queued was admitted with these labels; None where nothing is.

    Kueue marks what it manages. Where it does not, the pod would run past the queue.
    """
    if spec.gang_scheduling != "kueue" or KUEUE_MANAGED in pod_labels:
        return None
    return (
        f"gang_scheduling: Kueue leaves the pods of namespace {spec.namespace!r} alone; it must be installed, with pod "
        "among the frameworks of its integrations, and manage this namespace (managedJobsNamespaceSelector)"
    )


def _kueue(spec: TrainingSpec, group: Group) -> Membership:
    """Without `retriable-in-group: false`, Kueue waits for a replacement of each failed pod, and holds its quota."""
    return Membership(
        labels={"kueue.x-k8s.io/queue-name": str(spec.gang_queue), "kueue.x-k8s.io/pod-group-name": group.name},
        annotations={
            "kueue.x-k8s.io/pod-group-total-count": str(group.size),
            "kueue.x-k8s.io/retriable-in-group": "false",
        },
    )


def _volcano(spec: TrainingSpec, group: Group) -> Membership:
    wanted = {"minMember": group.size} | _given(queue=spec.gang_queue) | _priority(spec)
    return Membership(
        labels={names.LABEL_GANG_SCHEDULER: "volcano"},
        annotations={"scheduling.k8s.io/group-name": group.name},
        pod_spec={"schedulerName": "volcano"},
        pod_group=GangObject(
            plural="podgroups",
            manifest=_pod_group(spec, group, f"{POD_GROUP_APIS['volcano']}/v1beta1", wanted),
            provider="Volcano",
        ),
    )


def _coscheduling(spec: TrainingSpec, group: Group) -> Membership:
    return Membership(
        labels={names.LABEL_GANG_SCHEDULER: "coscheduling", "scheduling.x-k8s.io/pod-group": group.name},
        pod_spec={"schedulerName": "scheduler-plugins-scheduler"},
        pod_group=GangObject(
            plural="podgroups",
            manifest=_pod_group(spec, group, f"{POD_GROUP_APIS['coscheduling']}/v1alpha1", {"minMember": group.size}),
            provider="the coscheduling plugin of scheduler-plugins",
        ),
    )


def _native(spec: TrainingSpec, group: Group) -> Membership:
    """Disrupted as one, because it ends as one: whoever preempts a worker then knows what it costs."""
    wanted = {"schedulingPolicy": {"gang": {"minCount": group.size}}, "disruptionMode": {"all": {}}}
    return Membership(
        labels={names.LABEL_GANG_SCHEDULER: "native"},
        pod_spec={"schedulingGroup": {"podGroupName": group.name}},
        pod_group=GangObject(
            plural="podgroups",
            manifest=_pod_group(spec, group, f"{POD_GROUP_APIS['native']}/v1beta1", wanted | _priority(spec)),
            other_versions=("v1alpha3",),
            provider="Kubernetes 1.37 with feature gate GenericWorkload on API server, controller manager and "
            "scheduler, and scheduling.k8s.io/v1beta1=true in the API server's --runtime-config",
        ),
    )


def _pod_group(spec: TrainingSpec, group: Group, api: str, wanted: dict[str, Any]) -> dict[str, Any]:
    metadata = {"name": group.name, "namespace": spec.namespace, "labels": dict(group.labels)}
    return {"apiVersion": api, "kind": "PodGroup", "metadata": metadata, "spec": wanted}


def _priority(spec: TrainingSpec) -> dict[str, str]:
    """The group's, as the pods have it: groups are ordered by their own."""
    return _given(priorityClassName=spec.pod_options.get("priority_class_name"))


def _given(**fields: str | None) -> dict[str, str]:
    return {name: value for name, value in fields.items() if value}
