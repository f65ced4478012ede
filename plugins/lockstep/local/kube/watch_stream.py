"""A watch as it goes over the wire: one JSON event a line, with bookmarks, until its time is up."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable

from lockstep.local.kube.api_object import Json
from lockstep.local.kube.list_query import ListQuery
from lockstep.local.kube.object_store import Change, ObjectStore, Watch
from lockstep.local.kube.resource import Resource
from lockstep.local.kube.selector import Matches
from lockstep.local.kube.status_error import StatusError

_BOOKMARK_PERIOD_S = 60.0
_BOOKMARK_BEFORE_END_S = 2.0

Render = Callable[[Json], Json]


def watch_event(change: Change, matches: Matches) -> tuple[str, Json] | None:
    """Return what a watcher with this selector sees of a change, or None: entering is ADDED, leaving is DELETED."""
    was = change.before is not None and matches(change.before)
    if change.after is not None and matches(change.after):
        return ("MODIFIED" if was else "ADDED"), change.after
    if not was or change.before is None:
        return None
    metadata = change.before["metadata"] | {"resourceVersion": str(change.version)}
    return "DELETED", change.before | {"metadata": metadata}


async def watch_stream(
    store: ObjectStore, resource: Resource, namespace: str, query: ListQuery, render: Render
) -> AsyncIterator[bytes]:
    """Yield the events from `query.since` on; a version too old is an ERROR event with a 410."""
    try:
        watch = store.watch(query.since)
    except StatusError as error:
        yield _line("ERROR", error.status)
        return
    try:
        if query.since is None:
            for item in store.list(resource, namespace):
                if query.matches(item):
                    yield _line("ADDED", render(item))
        if query.initial_events:
            yield _bookmark(resource, store.version, {"k8s.io/initial-events-end": "true"})
        async for line in _events(watch, store, resource, namespace, query, render):
            yield line
    finally:
        store.stop(watch)


async def _events(
    watch: Watch, store: ObjectStore, resource: Resource, namespace: str, query: ListQuery, render: Render
) -> AsyncIterator[bytes]:
    end = time.monotonic() + query.timeout_s
    bookmark = _next_bookmark(end)
    while (now := time.monotonic()) < end:
        try:
            change = await asyncio.wait_for(watch.next(), max(0.0, min(end, bookmark) - now))
        except TimeoutError:
            if query.bookmarks and time.monotonic() >= bookmark:
                yield _bookmark(resource, store.version, {})
            bookmark = _next_bookmark(end)
            continue
        if change is None:
            return
        if change.plural == resource.plural and namespace in ("", change.item["metadata"].get("namespace", "")):
            event = watch_event(change, query.matches)
            if event is not None:
                yield _line(event[0], render(event[1]))


def _next_bookmark(end: float) -> float:
    """A minute from now, and once more shortly before the end."""
    now, last = time.monotonic(), end - _BOOKMARK_BEFORE_END_S
    return min(now + _BOOKMARK_PERIOD_S, last if last > now else end)


def _bookmark(resource: Resource, version: int, annotations: dict[str, str]) -> bytes:
    metadata: Json = {"resourceVersion": str(version)} | ({"annotations": annotations} if annotations else {})
    return _line("BOOKMARK", {"kind": resource.kind, "apiVersion": "v1", "metadata": metadata})


def _line(kind: str, item: Json) -> bytes:
    return json.dumps({"type": kind, "object": item}).encode() + b"\n"
