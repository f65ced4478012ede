"""Decoding of what clients send, against the schema that the `kubernetes` package carries in its models.

As the API server does, it drops what is null, reports fields that the kind does not have, and refuses a value of the
wrong type with a 400. What a well-typed value may be is for validation.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any

from kubernetes.client import models

from lockstep.local.kube.api_object import Json
from lockstep.local.kube.resource import Resource
from lockstep.local.kube.status_error import bad_request

_CONTAINER_TYPE = re.compile(r"(list|dict)\[(?:str, )?(.+)\]")
_SCALARS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "str": ("string", lambda value: isinstance(value, str)),
    "datetime": ("Time", lambda value: isinstance(value, str)),
    "bool": ("bool", lambda value: isinstance(value, bool)),
    "int": ("int64", lambda value: isinstance(value, int) and not isinstance(value, bool)),
    "float": ("float64", lambda value: isinstance(value, int | float) and not isinstance(value, bool)),
}
_QUANTITY_FIELDS = frozenset({"limits", "requests", "capacity", "allocatable", "overhead"})


class WrongType(ValueError):
    """A value that does not decode; the message names its path."""


def decode(resource: Resource, body: object) -> tuple[Json, list[str]]:
    """Return the object without nulls and unknown fields, and the paths of the unknown ones; raises a 400."""
    if not isinstance(body, dict):
        raise bad_request(f"the object provided is unrecognized: a {resource.kind} is a JSON object")
    _check_kind(resource, body)
    unknown: list[str] = []
    try:
        decoded = _decode_model(body, resource.model, "", unknown)
    except WrongType as error:
        raise bad_request(
            f'{resource.kind} in version "v1" cannot be handled as a {resource.kind}: json: {error}'
        ) from error
    return {"kind": resource.kind, "apiVersion": "v1", **decoded}, unknown


def _check_kind(resource: Resource, body: Json) -> None:
    kind, version = body.get("kind", resource.kind), body.get("apiVersion", "v1")
    if (kind, version) != (resource.kind, "v1"):
        raise bad_request(
            f"the API version in the data ({version}, Kind={kind}) does not match the expected API version "
            f"(v1, Kind={resource.kind})"
        )


@cache
def _fields(model: str) -> dict[str, str]:
    made = getattr(models, model)
    return {made.attribute_map[name]: kind for name, kind in made.openapi_types.items()}


def _decode(value: Any, kind: str, path: str, unknown: list[str]) -> Any:
    if kind in _SCALARS:
        return _decode_scalar(value, kind, path)
    if kind == "object":
        return value
    if (container := _CONTAINER_TYPE.fullmatch(kind)) is None:
        return _decode_model(value, kind, path, unknown)
    if container[1] == "list":
        return _decode_list(value, container[2], path, unknown)
    return _decode_map(value, container[2], path, unknown)


def _decode_scalar(value: Any, kind: str, path: str) -> Any:
    go_type, fits = _SCALARS[kind]
    if not fits(value):
        raise WrongType(f"cannot unmarshal {_json_type(value)} into Go struct field {path} of type {go_type}")
    return value


def _decode_list(value: Any, kind: str, path: str, unknown: list[str]) -> list[Any]:
    if not isinstance(value, list):
        raise WrongType(f"cannot unmarshal {_json_type(value)} into Go struct field {path} of type []{kind}")
    return [_decode(each, kind, f"{path}[{index}]", unknown) for index, each in enumerate(value) if each is not None]


def _decode_map(value: Any, kind: str, path: str, unknown: list[str]) -> Json:
    if not isinstance(value, dict):
        raise WrongType(f"cannot unmarshal {_json_type(value)} into Go struct field {path} of type map[string]{kind}")
    if path.rsplit(".", 1)[-1] in _QUANTITY_FIELDS:  # a quantity may be written as a number; it is kept as text
        value = {key: str(each) if isinstance(each, int | float) else each for key, each in value.items()}
    return {key: _decode(each, kind, f"{path}.{key}", unknown) for key, each in value.items() if each is not None}


def _decode_model(value: Any, model: str, path: str, unknown: list[str]) -> Json:
    if not isinstance(value, dict):
        raise WrongType(f"cannot unmarshal {_json_type(value)} into Go struct field {path} of type {model}")
    fields, decoded = _fields(model), {}
    for key, each in value.items():
        child = f"{path}.{key}" if path else key
        if key not in fields:
            unknown.append(child)
        elif each is not None:
            decoded[key] = _decode(each, fields[key], child, unknown)
    return decoded


def _json_type(value: Any) -> str:
    names = {bool: "bool", int: "number", float: "number", str: "string", list: "array", dict: "object"}
    return names.get(type(value), "null")
