"""A further object of a gang, beside its Service and its pods: a network policy, a scheduler's group of pods.

It is created between the two, owned by the Service, and so goes when the Service does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True, slots=True)
class GangObject:
    """`manifest` is the object without its owner; `plural` is what its kind is called in the API's paths."""

    plural: str
    manifest: dict[str, Any]

    @property
    def group(self) -> str:
        return self._group_version[0]

    @property
    def version(self) -> str:
        return self._group_version[1]

    @property
    def name(self) -> str:
        return str(self.manifest["metadata"]["name"])

    def __str__(self) -> str:
        return f"{self.manifest['kind']} {self.name}"

    @property
    def _group_version(self) -> tuple[str, str]:
        group, _, version = str(self.manifest["apiVersion"]).partition("/")
        return group, version
