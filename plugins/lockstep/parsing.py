"""Untrusted mappings -> frozen dataclasses, or one `InvalidSpec` that names every fault. Pydantic does the parsing.

The dataclasses stay plain: a class opts into refusing unknown keys by `__pydantic_config__ = STRICT_KEYS`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any, TypeVar, get_args, get_type_hints

from pydantic import ConfigDict, TypeAdapter, ValidationError

from lockstep.errors import InvalidSpec

STRICT_KEYS = ConfigDict(extra="forbid", hide_input_in_errors=True)

T = TypeVar("T")

_adapters: dict[type[Any], TypeAdapter[Any]] = {}


def parse(kind: type[T], given: Mapping[str, Any], *, what: str) -> T:
    """Build a `kind` from `given`; numbers may arrive as strings, as Jinja renders them.

    `what` names the thing in the error ("training", "spec.json"). Raises InvalidSpec listing all faults at once.
    """
    try:
        parsed: T = _adapter(kind).validate_python(dict(given))
    except ValidationError as invalid:
        raise InvalidSpec(_explain(kind, invalid, what)) from None
    return parsed


def to_json(value: Any) -> dict[str, Any]:
    """The dataclass as JSON-ready data; `parse(type(value), to_json(value))` equals `value`."""
    data: dict[str, Any] = _adapter(type(value)).dump_python(value, mode="json")
    return data


def _adapter(kind: type[Any]) -> TypeAdapter[Any]:
    """Made once: it takes 10 ms, which every worker's environment would pay."""
    if kind not in _adapters:
        _adapters[kind] = TypeAdapter(kind)
    return _adapters[kind]


def unknown_key(key: str, valid: Iterable[str]) -> str:
    """One sentence that refuses `key`, suggests the nearest valid name and lists them all."""
    names = sorted(valid)
    return f"unknown parameter {key!r}{nearest(key, names)}; valid ones: {', '.join(names)}"


def nearest(name: str, valid: Iterable[str]) -> str:
    """A hint at the one of `valid` that may be meant, to follow the name in a sentence; empty where none is near."""
    near = get_close_matches(name, list(valid), n=1)
    return f" (did you mean {near[0]!r}?)" if near else ""


def _explain(kind: type[Any], invalid: ValidationError, what: str) -> str:
    return "; ".join(_fault(kind, error, what) for error in invalid.errors())


def _fault(kind: type[Any], error: Any, what: str) -> str:
    path = [str(part) for part in error["loc"]]
    if error["type"] in ("unexpected_keyword_argument", "extra_forbidden"):
        valid = (field.name for field in dataclasses.fields(_kind_at(kind, path[:-1])))
        return f"{'.'.join([what, *path[:-1]])}: {unknown_key(path[-1], valid)}"
    return f"{'.'.join([what, *path])}: {error['msg'][0].lower()}{error['msg'][1:]}"


def _kind_at(kind: type[Any], path: Iterable[str]) -> type[Any]:
    for part in path:
        hint = get_type_hints(kind)[part]
        kind = next(
            (each for each in get_args(hint) if isinstance(each, type) and dataclasses.is_dataclass(each)), hint
        )
    return kind
