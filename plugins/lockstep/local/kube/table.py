"""Objects as the table that `kubectl get` prints: columns and cells are made by the server."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from lockstep.local.kube.api_object import Json, is_terminating, name_of, parse_timestamp
from lockstep.local.kube.pod_status import condition_of
from lockstep.local.kube.resource import Resource

_UNKNOWN = "<unknown>"
_NONE = "<none>"


@dataclass(frozen=True, kw_only=True, slots=True)
class Column:
    """One column; a wide one is shown by `-o wide` only."""

    name: str
    cell: Callable[[Json], Any]
    wide: bool = False

    @property
    def definition(self) -> Json:
        kind = "integer" if self.name == "Restarts" else "string"
        form = "name" if self.name == "Name" else ""
        return {"name": self.name, "type": kind, "format": form, "description": "", "priority": int(self.wide)}


def table(resource: Resource, items: Sequence[Json], version: str, include: str = "Metadata") -> Json:
    """Return a `Table` of the items; `include` is None, Metadata or Object: what each row carries beside its cells."""
    columns = _COLUMNS.get(resource.plural, _DEFAULT)
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {"resourceVersion": version},
        "columnDefinitions": [column.definition for column in columns],
        "rows": [{"cells": [column.cell(item) for column in columns], "object": _row(item, include)} for item in items],
    }


def _row(item: Json, include: str) -> Json | None:
    if include == "None":
        return None
    if include == "Object":
        return item
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": item["metadata"]}


def age(moment: str | None) -> str:
    """Return how long ago a timestamp was, as kubectl writes it: 5s, 4m10s, 3h7m, 2d."""
    return _UNKNOWN if not moment else human_duration(max(0, int(time.time() - parse_timestamp(moment))))


def human_duration(seconds: int) -> str:
    """Return a duration with no more precision than a reader wants."""
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if seconds < 120:
        return f"{seconds}s"
    if minutes < 10:
        return _two(minutes, "m", seconds % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    return _two(days, "d", hours % 24, "h") if days < 8 else f"{days}d"


def _two(first: int, first_unit: str, second: int, second_unit: str) -> str:
    return f"{first}{first_unit}{second}{second_unit}" if second else f"{first}{first_unit}"


def pod_state(pod: Json) -> str:
    """Return the STATUS that kubectl shows: the most telling of phase, reason and container state."""
    if is_terminating(pod):
        return "Terminating"
    shown = str(pod["status"].get("reason") or pod["status"].get("phase", ""))
    scheduled = condition_of(pod["status"], "PodScheduled") or {}
    if scheduled.get("reason") == "SchedulingGated":
        shown = "SchedulingGated"
    for container in pod["status"].get("containerStatuses", ()):
        state = next(iter(container["state"].values()))
        shown = state.get("reason") or shown
    return shown


def _ready(pod: Json) -> str:
    statuses = pod["status"].get("containerStatuses", ())
    return f"{sum(each['ready'] for each in statuses)}/{len(pod['spec']['containers'])}"


def _created(item: Json) -> str:
    return age(item["metadata"].get("creationTimestamp"))


def _ports(service: Json) -> str:
    ports = [f"{port['port']}/{port['protocol']}" for port in service["spec"].get("ports", ())]
    return ",".join(ports) or _NONE


def _selector(service: Json) -> str:
    return ",".join(f"{key}={value}" for key, value in service["spec"].get("selector", {}).items()) or _NONE


def _object(event: Json) -> str:
    about = event["involvedObject"]
    return f"{about.get('kind', '').lower()}/{about.get('name', '')}"


def _node_state(node: Json) -> str:
    return "Ready" if (condition_of(node["status"], "Ready") or {}).get("status") == "True" else "NotReady"


_NAME = Column(name="Name", cell=name_of)
_AGE = Column(name="Age", cell=_created)
_DEFAULT = (_NAME, _AGE)
_COLUMNS = {
    "pods": (
        _NAME,
        Column(name="Ready", cell=_ready),
        Column(name="Status", cell=pod_state),
        Column(name="Restarts", cell=lambda pod: "0"),
        _AGE,
        Column(name="IP", cell=lambda pod: pod["status"].get("podIP") or _NONE, wide=True),
        Column(name="Node", cell=lambda pod: pod["spec"].get("nodeName") or _NONE, wide=True),
        Column(name="Nominated Node", cell=lambda pod: _NONE, wide=True),
        Column(name="Readiness Gates", cell=lambda pod: _NONE, wide=True),
    ),
    "services": (
        _NAME,
        Column(name="Type", cell=lambda service: service["spec"]["type"]),
        Column(name="Cluster-IP", cell=lambda service: service["spec"]["clusterIP"]),
        Column(name="External-IP", cell=lambda service: _NONE),
        Column(name="Port(s)", cell=_ports),
        _AGE,
        Column(name="Selector", cell=_selector, wide=True),
    ),
    "events": (
        Column(name="Last Seen", cell=lambda event: age(event.get("lastTimestamp"))),
        Column(name="Type", cell=lambda event: event.get("type", "")),
        Column(name="Reason", cell=lambda event: event.get("reason", "")),
        Column(name="Object", cell=_object),
        Column(name="Message", cell=lambda event: event.get("message", "").strip()),
    ),
    "namespaces": (_NAME, Column(name="Status", cell=lambda item: item["status"]["phase"]), _AGE),
    "nodes": (
        _NAME,
        Column(name="Status", cell=_node_state),
        Column(name="Roles", cell=lambda node: _NONE),
        _AGE,
        Column(name="Version", cell=lambda node: node["status"]["nodeInfo"]["kubeletVersion"]),
    ),
}
