"""The objects, their one growing resource version, and the changes that watchers follow.

All of it lives in one event loop, so that each call is atomic. It knows no rules: what may be stored is decided before.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections import deque
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

from lockstep.local.kube.api_object import Json, name_of, namespace_of, version_of
from lockstep.local.kube.resource import RESOURCES, Resource
from lockstep.local.kube.status_error import already_exists, expired, not_found

_HISTORY = 4096

Key = tuple[str, str, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """One step from `before` to `after`; None stands for absence. A removal has a version of its own."""

    version: int
    plural: str
    before: Json | None
    after: Json | None

    @property
    def item(self) -> Json:
        """The object as it is now, or as it was when it went."""
        found = self.after if self.after is not None else self.before
        assert found is not None, "a change has at least one side"
        return found


class Watch:
    """The changes from one moment on, in order, until it is closed."""

    def __init__(self, pending: list[Change]) -> None:
        self._changes: asyncio.Queue[Change | None] = asyncio.Queue()
        for change in pending:
            self._changes.put_nowait(change)

    def offer(self, change: Change) -> None:
        self._changes.put_nowait(change)

    def close(self) -> None:
        self._changes.put_nowait(None)

    async def next(self) -> Change | None:
        """Return the next change, or None once the watch is closed."""
        return await self._changes.get()

    async def __aiter__(self) -> AsyncIterator[Change]:
        while (change := await self.next()) is not None:
            yield change


class ObjectStore:
    """Objects by resource, namespace and name, kept on disk where their resource says so.

    Versions start at the clock's milliseconds, so that they grow over a restart too: a client that watches from a
    version of an earlier life is told 410 and lists again.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._objects: dict[Key, Json] = {}
        self._version = time.time_ns() // 1_000_000
        self._history: deque[Change] = deque(maxlen=_HISTORY)
        self._forgotten = self._version
        self._watches: set[Watch] = set()
        self._closed = False
        self._load()

    @property
    def version(self) -> int:
        return self._version

    def get(self, resource: Resource, namespace: str, name: str) -> Json:
        """Return the object; raises a 404."""
        if (found := self.find(resource, namespace, name)) is None:
            raise not_found(resource.plural, name)
        return found

    def find(self, resource: Resource, namespace: str, name: str) -> Json | None:
        return self._objects.get((resource.plural, namespace, name))

    def list(self, resource: Resource, namespace: str = "") -> list[Json]:
        """Return the resource's objects in the order of namespace and name; "" is every namespace."""
        keys = sorted(key for key in self._objects if key[0] == resource.plural and namespace in ("", key[1]))
        return [self._objects[key] for key in keys]

    def __iter__(self) -> Iterator[tuple[Resource, Json]]:
        return iter([(RESOURCES[key[0]], item) for key, item in self._objects.items()])

    def create(self, resource: Resource, item: Json) -> Json:
        """Store a new object and return it with its version; raises a 409."""
        if self.find(resource, namespace_of(item), name_of(item)) is not None:
            raise already_exists(resource.plural, name_of(item))
        return self._put(resource, item, None)

    def replace(self, resource: Resource, item: Json) -> Json:
        """Store a new state of an object and return it with its version; raises a 404."""
        before = self.get(resource, namespace_of(item), name_of(item))
        unchanged = item | {"metadata": item["metadata"] | {"resourceVersion": str(version_of(before))}} == before
        return before if unchanged else self._put(resource, item, before)

    def remove(self, resource: Resource, item: Json) -> None:
        """Take an object out; raises a 404."""
        before = self.get(resource, namespace_of(item), name_of(item))
        del self._objects[(resource.plural, namespace_of(item), name_of(item))]
        self._file(resource, item).unlink(missing_ok=True)
        self._announce(resource, before, None)

    def watch(self, since: int | None = None) -> Watch:
        """Follow all changes after version `since`, or from now on; raises a 410 when the history is gone."""
        if since is not None and since < self._forgotten:
            raise expired(f"too old resource version: {since} ({self._forgotten})")
        watch = Watch([change for change in self._history if since is not None and change.version > since])
        if self._closed:
            watch.close()
        self._watches.add(watch)
        return watch

    def stop(self, watch: Watch) -> None:
        self._watches.discard(watch)

    def close_watches(self) -> None:
        """End every watch, and those to come: the server is about to end."""
        self._closed = True
        for watch in self._watches:
            watch.close()

    def _put(self, resource: Resource, item: Json, before: Json | None) -> Json:
        after = item | {"metadata": item["metadata"] | {"resourceVersion": str(self._version + 1)}}
        self._objects[(resource.plural, namespace_of(item), name_of(item))] = after
        if resource.kept_on_disk:
            _write_json(self._file(resource, after), after)
        self._announce(resource, before, after)
        return after

    def _announce(self, resource: Resource, before: Json | None, after: Json | None) -> None:
        self._version += 1
        if len(self._history) == _HISTORY:
            self._forgotten = self._history[0].version
        change = Change(version=self._version, plural=resource.plural, before=before, after=after)
        self._history.append(change)
        for watch in self._watches:
            watch.offer(change)

    def _file(self, resource: Resource, item: Json) -> Path:
        return self._folder / resource.plural / (namespace_of(item) or "_") / f"{name_of(item)}.json"

    def _load(self) -> None:
        for path in sorted(self._folder.glob("*/*/*.json")):
            item = json.loads(path.read_bytes())
            self._objects[(path.parts[-3], namespace_of(item), name_of(item))] = item
            self._version = self._forgotten = max(self._version, version_of(item))


def _write_json(path: Path, item: Json) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".unfinished")
    unfinished.write_bytes(json.dumps(item).encode())
    os.replace(unfinished, path)
