"""Deletes what lost its owners, and what lies in a namespace that is being deleted.

`leftovers` is pure: it looks at all objects and says what to do. The collector does it after every change.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from lockstep.local.kube.api_object import Json, is_terminating, name_of, namespace_of, uid_of
from lockstep.local.kube.object_store import ObjectStore
from lockstep.local.kube.registry import FOREGROUND, DeleteOptions, Registry
from lockstep.local.kube.resource import BY_KIND, NAMESPACES, Resource

Stored = tuple[Resource, Json]


@dataclass(frozen=True, kw_only=True, slots=True)
class Delete:
    """This object has to go."""

    resource: Resource
    item: Json


@dataclass(frozen=True, kw_only=True, slots=True)
class Release:
    """All that this object waited for is gone."""

    resource: Resource
    item: Json


def leftovers(stored: Iterable[Stored]) -> Iterator[Delete | Release]:
    """Yield what the deletion of owners and namespaces asks for next."""
    everything = list(stored)
    living = {uid_of(item) for _, item in everything}
    doomed = {uid_of(item) for _, item in everything if is_foreground(item)}
    ending = {name_of(item) for resource, item in everything if resource is NAMESPACES and is_terminating(item)}
    for resource, item in everything:
        if is_terminating(item):
            continue
        if namespace_of(item) in ending or _lost_its_owners(item, living, doomed):
            yield Delete(resource=resource, item=item)
    awaited = {owner["uid"] for _, item in everything for owner in _owners(item)}
    occupied = {namespace_of(item) for _, item in everything}
    for resource, item in everything:
        waits_for_contents = resource is NAMESPACES and name_of(item) in occupied
        if is_terminating(item) and _is_held(resource, item) and uid_of(item) not in awaited and not waits_for_contents:
            yield Release(resource=resource, item=item)


def is_foreground(item: Json) -> bool:
    return is_terminating(item) and FOREGROUND in item["metadata"].get("finalizers", ())


def _is_held(resource: Resource, item: Json) -> bool:
    return is_foreground(item) or (resource is NAMESPACES and bool(item["spec"].get("finalizers")))


def _owners(item: Json) -> list[Json]:
    return list(item["metadata"].get("ownerReferences", ()))


def _lost_its_owners(item: Json, living: set[str], doomed: set[str]) -> bool:
    """An owner of a kind that this server does not have cannot be looked up, and counts as there."""
    owners = _owners(item)
    remaining = [each for each in owners if each["kind"] not in BY_KIND or each["uid"] in living - doomed]
    return bool(owners) and not remaining


class GarbageCollector:
    """Carries out what `leftovers` asks for."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._store: ObjectStore = registry.store

    async def run(self) -> None:
        """Collect after every change until the store closes its watches."""
        watch = self._store.watch()
        self._collect()
        async for change in watch:
            if change.after is None or is_terminating(change.after) or _owners(change.after):
                self._collect()

    def _collect(self) -> None:
        for action in leftovers(self._store):
            match action:
                case Delete(resource=resource, item=item):
                    self._delete(resource, item)
                case Release(resource=resource, item=item):
                    self._release(resource, item)

    def _delete(self, resource: Resource, item: Json) -> None:
        if self._store.find(resource, namespace_of(item), name_of(item)) is not None:
            self._registry.delete(resource, namespace_of(item), name_of(item), DeleteOptions(uid=uid_of(item)))

    def _release(self, resource: Resource, item: Json) -> None:
        kept = [each for each in item["metadata"].get("finalizers", ()) if each != FOREGROUND]
        released = item | {"metadata": item["metadata"] | {"finalizers": kept}}
        if resource is NAMESPACES:
            released |= {"spec": {"finalizers": []}}
        self._registry.update(resource, namespace_of(item), name_of(item), released)
