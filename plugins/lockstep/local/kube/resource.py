"""The kinds that this server serves, each with its names, its verbs and the fields one may select by.

Everything else is told by omission: discovery does not list it, so clients refuse it themselves.
"""

from __future__ import annotations

from dataclasses import dataclass

_ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
_READ_ONLY = ("get", "list", "watch")
_COMMON_FIELDS = frozenset({"metadata.name", "metadata.namespace"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Resource:
    """One kind of the core group, version v1. `model` is its class in the `kubernetes` package: the schema."""

    plural: str
    singular: str
    kind: str
    model: str
    short_names: tuple[str, ...]
    namespaced: bool = True
    verbs: tuple[str, ...] = _ALL_VERBS
    selectable_fields: frozenset[str] = _COMMON_FIELDS
    categories: tuple[str, ...] = ()
    subresources: tuple[tuple[str, tuple[str, ...]], ...] = ()
    kept_on_disk: bool = True


PODS = Resource(
    plural="pods",
    singular="pod",
    kind="Pod",
    model="V1Pod",
    short_names=("po",),
    categories=("all",),
    selectable_fields=_COMMON_FIELDS
    | {
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.nominatedNodeName",
    },
    subresources=(("status", ("get", "patch", "update")), ("log", ("get",)), ("eviction", ("create",))),
)
SERVICES = Resource(
    plural="services",
    singular="service",
    kind="Service",
    model="V1Service",
    short_names=("svc",),
    categories=("all",),
    selectable_fields=_COMMON_FIELDS | {"spec.clusterIP", "spec.type"},
    subresources=(("status", ("get", "patch", "update")),),
)
EVENTS = Resource(
    plural="events",
    singular="event",
    kind="Event",
    model="CoreV1Event",
    short_names=("ev",),
    selectable_fields=_COMMON_FIELDS
    | {
        "involvedObject.kind",
        "involvedObject.namespace",
        "involvedObject.name",
        "involvedObject.uid",
        "involvedObject.apiVersion",
        "involvedObject.resourceVersion",
        "involvedObject.fieldPath",
        "reason",
        "reportingComponent",
        "source",
        "type",
    },
    kept_on_disk=False,
)
NAMESPACES = Resource(
    plural="namespaces",
    singular="namespace",
    kind="Namespace",
    model="V1Namespace",
    short_names=("ns",),
    namespaced=False,
    verbs=tuple(verb for verb in _ALL_VERBS if verb != "deletecollection"),
    selectable_fields=frozenset({"metadata.name", "status.phase"}),
    subresources=(("status", ("get", "patch", "update")),),
)
SERVICE_ACCOUNTS = Resource(
    plural="serviceaccounts",
    singular="serviceaccount",
    kind="ServiceAccount",
    model="V1ServiceAccount",
    short_names=("sa",),
)
NODES = Resource(
    plural="nodes",
    singular="node",
    kind="Node",
    model="V1Node",
    short_names=("no",),
    namespaced=False,
    verbs=_READ_ONLY,
    selectable_fields=frozenset({"metadata.name", "spec.unschedulable"}),
    kept_on_disk=False,
)

RESOURCES = {each.plural: each for each in (PODS, SERVICES, EVENTS, NAMESPACES, SERVICE_ACCOUNTS, NODES)}
BY_KIND = {each.kind: each for each in RESOURCES.values()}
