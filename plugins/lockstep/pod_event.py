"""What a watch tells of a gang's pods."""

from __future__ import annotations

from dataclasses import dataclass

from lockstep.pod_snapshot import PodSnapshot


@dataclass(frozen=True, slots=True)
class PodsListed:
    """Every pod of the gang there is; whatever was known and is not among them is gone."""

    pods: tuple[PodSnapshot, ...]


@dataclass(frozen=True, slots=True)
class PodSeen:
    """A pod came to be, or changed."""

    pod: PodSnapshot


@dataclass(frozen=True, slots=True)
class PodGone:
    """A pod is no more; the snapshot is its last state."""

    pod: PodSnapshot


PodEvent = PodsListed | PodSeen | PodGone
