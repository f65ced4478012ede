"""A further object of a gang, beside its Service and its pods: a network policy, a scheduler's group of pods.

It is created between the two, owned by the Service, and so goes when the Service does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True, kw_only=True, slots=True)
class GangObject:
    """`manifest` is the object without its owner; `plural` is what its kind is called in the API's paths.

    `provider` is what a cluster must have in order to know the kind, where not every cluster does; `other_versions` are
    those in which the manifest means the same, in the order in which they are tried.
    """

    plural: str
    manifest: dict[str, Any]
    provider: str = ""
    other_versions: tuple[str, ...] = ()

    @property
    def group(self) -> str:
        return self._group_version[0]

    @property
    def version(self) -> str:
        return self._group_version[1]

    def in_versions(self) -> Iterator[GangObject]:
        """The same object in each version that will do, the best first."""
        for version in (self.version, *self.other_versions):
            yield replace(self, manifest=self.manifest | {"apiVersion": f"{self.group}/{version}"})

    @property
    def name(self) -> str:
        return str(self.manifest["metadata"]["name"])

    def __str__(self) -> str:
        return f"{self.manifest['kind']} {self.name}"

    @property
    def _group_version(self) -> tuple[str, str]:
        group, _, version = str(self.manifest["apiVersion"]).partition("/")
        return group, version
