"""Create, update, patch and delete: the rules between a decoded request and the store.

Reading needs no rules and goes to the store directly.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from lockstep.local.kube.api_object import (
    Json,
    generated_name,
    generation_of,
    is_terminating,
    name_of,
    namespace_of,
    new_uid,
    timestamp,
    uid_of,
)
from lockstep.local.kube.metadata_rules import metadata_errors
from lockstep.local.kube.object_store import ObjectStore
from lockstep.local.kube.pod_rules import pod_errors, pod_update_errors, with_pod_defaults
from lockstep.local.kube.pod_status import is_terminal, with_condition
from lockstep.local.kube.resource import NAMESPACES, PODS, SERVICE_ACCOUNTS, SERVICES, Resource
from lockstep.local.kube.service_rules import service_errors, service_update_errors, with_service_defaults
from lockstep.local.kube.status_error import (
    FieldError,
    already_exists,
    bad_request,
    conflict,
    forbidden,
    invalid,
    not_found,
)

FOREGROUND = "foregroundDeletion"
_SET_BY_SERVER = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation")
_COUNTED = (PODS,)  # kinds whose changes of spec are counted, in metadata.generation
_KEPT_NAMESPACES = ("default",)
_SERVICE_NETWORK = "10.96.{}.{}"


@dataclass(frozen=True, kw_only=True, slots=True)
class DeleteOptions:
    """How to delete. `grace_s` None: as long as the pod asks for. `propagation` is about what the object owns."""

    grace_s: int | None = None
    uid: str | None = None
    resource_version: str | None = None
    propagation: str = "Background"


class Registry:
    """The writing half of the API."""

    def __init__(self, store: ObjectStore) -> None:
        self.store = store

    def create(self, resource: Resource, namespace: str, item: Json, *, dry_run: bool = False) -> Json:
        """Store a new object; raises 400, 403, 404 (no such namespace), 409, 422."""
        named = _with_identity(resource, namespace, item)
        completed = self._with_defaults(resource, named)
        _refuse(resource, named, [*metadata_errors(resource, completed), *_spec_errors(resource, completed)])
        if resource.namespaced:
            self._check_namespace(resource, completed)
        if resource is PODS:
            self._check_service_account(completed)
        if self.store.find(resource, namespace_of(completed), name_of(completed)) is not None:
            raise already_exists(resource.plural, name_of(completed))
        return completed if dry_run else self._store_new(resource, completed)

    def update(
        self, resource: Resource, namespace: str, name: str, item: Json, *, status: bool = False, dry_run: bool = False
    ) -> Json:
        """Store a new state of an object, or of its status only; raises 400, 404, 409, 422."""
        before = self.store.get(resource, namespace, name)
        _check_same(resource, before, item)
        after = before | {"status": item.get("status", {})} if status else _with_fixed(before, item)
        if not status:
            errors = [*metadata_errors(resource, after), *_update_errors(resource, before, after)]
            _refuse(resource, after, errors)
        if dry_run:
            return after
        if is_terminating(after) and _is_finished(after):
            self.store.remove(resource, before)
            return after
        return self.store.replace(resource, after)

    def delete(
        self, resource: Resource, namespace: str, name: str, options: DeleteOptions, *, dry_run: bool = False
    ) -> Json:
        """Mark an object for deletion, or take it away where nothing keeps it; raises 403, 404, 409."""
        before = self.store.get(resource, namespace, name)
        _check_preconditions(resource, before, options)
        if resource is NAMESPACES and name in _KEPT_NAMESPACES:
            raise forbidden(resource.plural, name, "this namespace may not be deleted")
        marked = _marked(resource, before, options)
        if dry_run:
            return marked
        if options.propagation == "Orphan":
            self._orphan(before)
        if not _is_finished(marked):
            return self.store.replace(resource, marked)
        self.store.remove(resource, before)
        return marked

    def evict(self, namespace: str, name: str, options: DeleteOptions) -> None:
        """Delete a pod as the eviction API does: with a condition that tells why."""
        pod = self.store.get(PODS, namespace, name)
        if not is_terminal(pod):
            reason, message = "EvictionByEvictionAPI", "Eviction API: evicting"
            status = with_condition(pod["status"], "DisruptionTarget", True, reason, message)
            self.store.replace(PODS, pod | {"status": status})
        self.delete(PODS, namespace, name, options)

    def ensure_namespace(self, name: str) -> None:
        """Create a namespace, with its service account, unless it is there."""
        if self.store.find(NAMESPACES, "", name) is None:
            self.create(NAMESPACES, "", {"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": name}})

    def _with_defaults(self, resource: Resource, item: Json) -> Json:
        if resource is PODS:
            return with_pod_defaults(item)
        if resource is SERVICES:
            return with_service_defaults(item, self._free_address())
        if resource is NAMESPACES:
            return _with_namespace_defaults(item)
        return item

    def _free_address(self) -> str:
        taken = {service["spec"]["clusterIP"] for service in self.store.list(SERVICES)}
        candidates = (_SERVICE_NETWORK.format(number // 254, number % 254 + 1) for number in range(1, 65_000))
        return next(address for address in candidates if address not in taken)

    def _check_namespace(self, resource: Resource, item: Json) -> None:
        namespace = self.store.get(NAMESPACES, "", namespace_of(item))
        if is_terminating(namespace):
            why = f"unable to create new content in namespace {name_of(namespace)} because it is being terminated"
            raise forbidden(resource.plural, name_of(item), why)

    def _check_service_account(self, pod: Json) -> None:
        account = pod["spec"]["serviceAccountName"]
        if self.store.find(SERVICE_ACCOUNTS, namespace_of(pod), account) is None:
            missing = not_found(SERVICE_ACCOUNTS.singular, account).message
            why = f"error looking up service account {namespace_of(pod)}/{account}: {missing}"
            raise forbidden(PODS.plural, name_of(pod), why)

    def _store_new(self, resource: Resource, item: Json) -> Json:
        stored = self.store.create(resource, item)
        if resource is NAMESPACES:
            account = {"kind": "ServiceAccount", "apiVersion": "v1", "metadata": {"name": "default"}}
            self.create(SERVICE_ACCOUNTS, name_of(item), account)
        return stored

    def _orphan(self, owner: Json) -> None:
        for resource, item in list(self.store):
            owners = item["metadata"].get("ownerReferences", [])
            kept = [each for each in owners if each["uid"] != uid_of(owner)]
            if len(kept) < len(owners):
                self.store.replace(resource, item | {"metadata": item["metadata"] | {"ownerReferences": kept}})


def _with_identity(resource: Resource, namespace: str, item: Json) -> Json:
    metadata = dict(item.get("metadata", {}))
    if metadata.pop("resourceVersion", ""):
        raise bad_request("resourceVersion should not be set on objects to be created")
    if resource.namespaced and metadata.setdefault("namespace", namespace) != namespace:
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    if not resource.namespaced:
        metadata.pop("namespace", None)
    if not metadata.get("name") and metadata.get("generateName"):
        metadata["name"] = generated_name(metadata["generateName"])
    metadata = {key: value for key, value in metadata.items() if key not in _SET_BY_SERVER and value not in ([], {})}
    first = {"generation": 1} if resource in _COUNTED else {}
    return item | {"metadata": metadata | first | {"uid": new_uid(), "creationTimestamp": timestamp()}}


def _with_namespace_defaults(namespace: Json) -> Json:
    metadata = namespace["metadata"]
    labels = metadata.get("labels", {}) | {"kubernetes.io/metadata.name": metadata.get("name", "")}
    fixed: Json = {"spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}}
    return namespace | {"metadata": metadata | {"labels": labels}} | fixed


def _spec_errors(resource: Resource, item: Json) -> Iterator[FieldError]:
    if resource is PODS:
        yield from pod_errors(item)
    elif resource is SERVICES:
        yield from service_errors(item)


_UPDATE_RULES: dict[str, Callable[[Json, Json], Iterator[FieldError]]] = {
    PODS.plural: pod_update_errors,
    SERVICES.plural: service_update_errors,
}


def _update_errors(resource: Resource, before: Json, after: Json) -> Iterator[FieldError]:
    if resource.plural in _UPDATE_RULES:
        yield from _UPDATE_RULES[resource.plural](before, after)


def _refuse(resource: Resource, item: Json, errors: list[FieldError]) -> None:
    if errors:
        raise invalid(resource.kind, item["metadata"].get("name", ""), errors)


def _check_same(resource: Resource, before: Json, item: Json) -> None:
    metadata = item.get("metadata", {})
    name = name_of(before)
    if metadata.get("name", name) != name:
        raise bad_request(f"the name of the object ({metadata['name']}) does not match the name on the URL ({name})")
    if metadata.get("uid", uid_of(before)) != uid_of(before):
        why = f"Precondition failed: UID in precondition: {metadata['uid']}, UID in object meta: {uid_of(before)}"
        raise conflict(resource.plural, name, why)
    if metadata.get("resourceVersion", "") not in ("", before["metadata"]["resourceVersion"]):
        why = "the object has been modified; please apply your changes to the latest version and try again"
        raise conflict(resource.plural, name, why)


def _with_fixed(before: Json, item: Json) -> Json:
    """Return the new state with what only the server may set taken from the old one."""
    fixed = {key: before["metadata"][key] for key in _SET_BY_SERVER if key in before["metadata"]}
    given = {key: value for key, value in item.get("metadata", {}).items() if key not in _SET_BY_SERVER}
    identity = {"name": name_of(before)} | ({"namespace": namespace_of(before)} if namespace_of(before) else {})
    if item.get("spec") != before.get("spec"):
        fixed |= _next_generation(before)
    kept = {key: before[key] for key in ("status",) if key in before}
    return copy.deepcopy(item) | {"metadata": given | identity | fixed} | kept


def _next_generation(before: Json) -> Json:
    return {"generation": generation_of(before) + 1} if generation_of(before) else {}


def _check_preconditions(resource: Resource, item: Json, options: DeleteOptions) -> None:
    checks = (("UID", options.uid, uid_of(item)), ("ResourceVersion", options.resource_version, None))
    for what, wanted, found in checks:
        found = item["metadata"]["resourceVersion"] if found is None else found
        if wanted is not None and wanted != found:
            why = (
                f"the {what} in the precondition ({wanted}) does not match the {what} in record ({found}). "
                "The object might have been deleted and then recreated"
            )
            raise conflict(resource.plural, name_of(item), why)


def _marked(resource: Resource, item: Json, options: DeleteOptions) -> Json:
    """Return the object with its deletion noted: since when, with how much grace, and what has to happen first."""
    metadata: Json = dict(item["metadata"])
    grace_s = _grace_s(resource, item, options)
    if not is_terminating(item) or grace_s < metadata["deletionGracePeriodSeconds"]:
        metadata["deletionTimestamp"] = timestamp(time.time() + grace_s)
        metadata["deletionGracePeriodSeconds"] = grace_s
        metadata |= _next_generation(item)
    if options.propagation == "Foreground" and FOREGROUND not in metadata.get("finalizers", []):
        metadata["finalizers"] = [*metadata.get("finalizers", []), FOREGROUND]
    marked = item | {"metadata": metadata}
    return marked | {"status": {"phase": "Terminating"}} if resource is NAMESPACES else marked


def _grace_s(resource: Resource, item: Json, options: DeleteOptions) -> int:
    if resource is not PODS or "nodeName" not in item["spec"] or is_terminal(item):
        return 0
    asked: Any = item["spec"]["terminationGracePeriodSeconds"] if options.grace_s is None else options.grace_s
    return int(asked)


def _is_finished(item: Json) -> bool:
    kept_by = [*item["metadata"].get("finalizers", ()), *item.get("spec", {}).get("finalizers", ())]
    return not kept_by and item["metadata"]["deletionGracePeriodSeconds"] == 0
