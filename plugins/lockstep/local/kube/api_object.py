"""What every API object has: metadata, an identity, timestamps in Kubernetes' form.

Objects are the plain JSON that goes over the wire. Once stored they are never changed in place: who wants a change
makes a copy, changes that, and stores it.
"""

from __future__ import annotations

import secrets
import time
import uuid
from datetime import UTC, datetime
from typing import Any

Json = dict[str, Any]

_SUFFIX_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX_LENGTH = 5
_LONGEST_GENERATED_NAME = 63


def timestamp(epoch_s: float | None = None) -> str:
    """Return RFC 3339 in whole seconds, UTC, as `metadata.creationTimestamp` has it."""
    moment = datetime.fromtimestamp(time.time() if epoch_s is None else epoch_s, UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_timestamp(text: str) -> float:
    """Return seconds since the epoch; raises ValueError."""
    return datetime.fromisoformat(text).timestamp()


def new_uid() -> str:
    return str(uuid.uuid4())


def generated_name(prefix: str) -> str:
    """Return what the API server makes of `metadata.generateName`."""
    suffix = "".join(secrets.choice(_SUFFIX_ALPHABET) for _ in range(_SUFFIX_LENGTH))
    return prefix[: _LONGEST_GENERATED_NAME - _SUFFIX_LENGTH] + suffix


def name_of(item: Json) -> str:
    return str(item["metadata"]["name"])


def namespace_of(item: Json) -> str:
    """Return the namespace, or "" for an object that belongs to none."""
    return str(item["metadata"].get("namespace", ""))


def uid_of(item: Json) -> str:
    return str(item["metadata"]["uid"])


def generation_of(item: Json) -> int:
    """Return which version of its spec the object has; 0 for kinds that do not count them."""
    return int(item["metadata"].get("generation", 0))


def version_of(item: Json) -> int:
    return int(item["metadata"]["resourceVersion"])


def is_terminating(item: Json) -> bool:
    """True once somebody asked for the object's deletion."""
    return "deletionTimestamp" in item["metadata"]


def reference_to(item: Json) -> Json:
    """Return the ObjectReference that an Event carries."""
    reference = {"kind": item["kind"], "apiVersion": item["apiVersion"], "name": name_of(item), "uid": uid_of(item)}
    if namespace_of(item):
        reference["namespace"] = namespace_of(item)
    return reference
