"""Label and field selectors: the text that clients send, as a predicate over objects."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from lockstep.local.kube.api_object import Json
from lockstep.local.kube.resource import Resource
from lockstep.local.kube.status_error import bad_request

Matches = Callable[[Json], bool]

_KEY = r"(?:[A-Za-z0-9.-]+/)?[A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?"
_VALUE = r"(?:[A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?)?"
_SET = re.compile(rf"\s*({_KEY})\s+(in|notin)\s*\(([^()]*)\)\s*")
_EQUALITY = re.compile(rf"\s*({_KEY})\s*(==|=|!=)\s*({_VALUE})\s*")
_EXISTENCE = re.compile(rf"\s*(!?)\s*({_KEY})\s*")
_OUTSIDE_BRACKETS = re.compile(r",(?![^(]*\))")
_FIELD_TERM = re.compile(r"\s*([A-Za-z.]+)\s*(==|=|!=)\s*(.*?)\s*")


@dataclass(frozen=True, kw_only=True, slots=True)
class Requirement:
    """One term of a label selector. A key that is absent is outside every set."""

    key: str
    values: frozenset[str] | None
    wanted: bool

    def holds(self, labels: Mapping[str, str]) -> bool:
        if self.values is None:
            return (self.key in labels) == self.wanted
        return (labels.get(self.key) in self.values) == self.wanted


def label_selector(text: str) -> Matches:
    """Return the predicate of a label selector, e.g. `app=x,tier in (a, b),!old`; raises a 400."""
    requirements = [_requirement(term, text) for term in _OUTSIDE_BRACKETS.split(text)] if text.strip() else []
    return lambda item: all(each.holds(item["metadata"].get("labels") or {}) for each in requirements)


def _requirement(term: str, whole: str) -> Requirement:
    if found := _SET.fullmatch(term):
        values = frozenset(value.strip() for value in found[3].split(","))
        return Requirement(key=found[1], values=values, wanted=found[2] == "in")
    if found := _EQUALITY.fullmatch(term):
        return Requirement(key=found[1], values=frozenset({found[3]}), wanted=found[2] != "!=")
    if found := _EXISTENCE.fullmatch(term):
        return Requirement(key=found[2], values=None, wanted=not found[1])
    raise bad_request(f'unable to parse requirement: found "{term.strip()}" in label selector "{whole}"')


def field_selector(text: str, resource: Resource) -> Matches:
    """Return the predicate of a field selector, e.g. `status.phase!=Running`; a field not selectable is a 400."""
    terms = [_field_term(term, text, resource) for term in text.split(",")] if text.strip() else []
    return lambda item: all((_field(item, path) == value) == wanted for path, value, wanted in terms)


def _field_term(term: str, whole: str, resource: Resource) -> tuple[str, str, bool]:
    if (found := _FIELD_TERM.fullmatch(term)) is None:
        raise bad_request(f"invalid field selector: \"{whole}\"; can't understand '{term}'")
    if found[1] not in resource.selectable_fields:
        raise bad_request(
            f'Unable to find "{resource.plural}" that match label selector "", field selector "{whole}": '
            f"field label not supported: {found[1]}"
        )
    return found[1], found[3], found[2] != "!="


def _field(item: Json, path: str) -> str:
    value: Any = item
    for key in path.split("."):
        value = value.get(key) if isinstance(value, dict) else None
    if path == "source":
        value = (value or {}).get("component")
    if value is None:
        return "false" if path in ("spec.hostNetwork", "spec.unschedulable") else ""
    return str(value).lower() if isinstance(value, bool) else str(value)
