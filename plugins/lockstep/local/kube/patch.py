"""The three patch formats that clients send: JSON patch, merge patch, strategic merge patch.

Strategic merge needs to know by which key the entries of a list are told apart; the keys here are those that the
kinds of this server have. Server-side apply is not served.
"""

from __future__ import annotations

import copy
from typing import Any

import jsonpatch

from lockstep.local.kube.api_object import Json
from lockstep.local.kube.status_error import StatusError, bad_request, unsupported_media_type

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"

_MERGE_KEYS = {
    "conditions": "type",
    "containers": "name",
    "initContainers": "name",
    "env": "name",
    "ownerReferences": "uid",
    "volumes": "name",
    "volumeMounts": "mountPath",
    "imagePullSecrets": "name",
    "schedulingGates": "name",
    "hostAliases": "ip",
    "podIPs": "ip",
    "secrets": "name",
    "topologySpreadConstraints": "topologyKey",
}
_MERGED_SCALARS = frozenset({"finalizers"})


def apply_patch(item: Json, patch: Any, media_type: str) -> Json:
    """Return the patched copy; raises a 400 for a malformed patch, 422 for one that does not apply, 415."""
    if media_type == JSON_PATCH:
        return _json_patch(item, patch)
    if media_type not in (MERGE_PATCH, STRATEGIC_PATCH):
        raise unsupported_media_type((JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH))
    if not isinstance(patch, dict):
        raise bad_request("error decoding patch: a merge patch is a JSON object")
    merged = merge(item, patch) if media_type == MERGE_PATCH else strategic_merge(item, patch)
    return dict(merged)


def _json_patch(item: Json, patch: Any) -> Json:
    try:
        return dict(jsonpatch.JsonPatch(patch).apply(item))
    except jsonpatch.InvalidJsonPatch as error:
        raise bad_request(f"error decoding patch: {error}") from error
    except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException) as error:
        details: Json = {"causes": []}
        raise StatusError(422, "Invalid", f"the server rejected our request: {error}", details) from error


def merge(target: Any, patch: Any) -> Any:
    """RFC 7386: null removes, objects merge, everything else replaces."""
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge(merged.get(key), value)
    return merged


def strategic_merge(target: Json, patch: Json) -> Json:
    """Merge as a merge patch does, but lists with a merge key entry by entry, and with `$patch` directives."""
    if patch.get("$patch") == "replace":
        return {key: value for key, value in patch.items() if key != "$patch"}
    if patch.get("$patch") == "delete":
        return {}
    merged = dict(target)
    for key, value in patch.items():
        _merge_field(merged, key, value)
    return _retained(merged, patch)


def _merge_field(merged: Json, key: str, value: Any) -> None:
    if key.startswith("$deleteFromPrimitiveList/"):
        name = key.split("/", 1)[1]
        merged[name] = [each for each in merged.get(name, []) if each not in value]
    elif key.startswith("$"):
        return  # order of lists, and what _retained reads
    elif value is None:
        merged.pop(key, None)
    elif isinstance(value, dict):
        merged[key] = strategic_merge(merged.get(key) or {}, value)
    elif isinstance(value, list):
        merged[key] = _merge_list(merged.get(key) or [], value, key)
    else:
        merged[key] = value


def _merge_list(target: list[Any], patch: list[Any], key: str) -> list[Any]:
    if key in _MERGED_SCALARS:
        return target + [each for each in patch if each not in target]
    merge_key = _merge_key(key, target + patch)
    if merge_key is None or any(each.get("$patch") == "replace" for each in patch):
        return [each for each in patch if not (isinstance(each, dict) and "$patch" in each)]
    entries = {each.get(merge_key): each for each in target}
    for each in patch:
        identity = each.get(merge_key)
        if each.get("$patch") == "delete":
            entries.pop(identity, None)
        else:
            entries[identity] = strategic_merge(entries.get(identity, {}), each)
    return list(entries.values())


def _merge_key(key: str, entries: list[Any]) -> str | None:
    if key == "ports":
        return "containerPort" if any("containerPort" in each for each in entries) else "port"
    return _MERGE_KEYS.get(key)


def _retained(merged: Json, patch: Json) -> Json:
    if (kept := patch.get("$retainKeys")) is None:
        return merged
    return {key: value for key, value in merged.items() if key in kept}
