"""Writes the Events that a scheduler and a kubelet write; the same event again raises its count.

Events are forgotten after an hour, as an API server does by default.
"""

from __future__ import annotations

import time

from lockstep.local.kube.api_object import Json, namespace_of, new_uid, parse_timestamp, reference_to, timestamp
from lockstep.local.kube.object_store import ObjectStore
from lockstep.local.kube.resource import EVENTS

_LIFETIME_S = 3600.0


class EventRecorder:
    """Records what happens to pods, as `component` on behalf of the node."""

    def __init__(self, store: ObjectStore, component: str, host: str) -> None:
        self._store = store
        self._component = component
        self._host = host

    def normal(self, about: Json, reason: str, message: str) -> None:
        self._record(about, "Normal", reason, message)

    def warning(self, about: Json, reason: str, message: str) -> None:
        self._record(about, "Warning", reason, message)

    def _record(self, about: Json, kind: str, reason: str, message: str) -> None:
        self._forget_old()
        reference, now = reference_to(about), timestamp()
        if self._component == "kubelet":
            reference["fieldPath"] = f"spec.containers{{{about['spec']['containers'][0]['name']}}}"
        for seen in self._store.list(EVENTS, namespace_of(about)):
            same_object = seen["involvedObject"].get("uid") == reference["uid"]
            if same_object and (seen.get("reason"), seen.get("message")) == (reason, message):
                self._store.replace(EVENTS, seen | {"count": seen.get("count", 1) + 1, "lastTimestamp": now})
                return
        self._store.create(EVENTS, self._event(reference, kind, reason, message, now))

    def _event(self, reference: Json, kind: str, reason: str, message: str, now: str) -> Json:
        metadata = {
            "name": f"{reference['name']}.{time.time_ns():x}",
            "namespace": reference.get("namespace", "default"),
            "uid": new_uid(),
            "creationTimestamp": now,
        }
        return {
            "kind": "Event",
            "apiVersion": "v1",
            "metadata": metadata,
            "involvedObject": reference,
            "type": kind,
            "reason": reason,
            "message": message,
            "source": {"component": self._component, "host": self._host},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
            "eventTime": None,
            "reportingComponent": self._component,
            "reportingInstance": self._host,
        }

    def _forget_old(self) -> None:
        horizon = time.time() - _LIFETIME_S
        for event in self._store.list(EVENTS):
            if parse_timestamp(event.get("lastTimestamp") or event["metadata"]["creationTimestamp"]) < horizon:
                self._store.remove(EVENTS, event)
