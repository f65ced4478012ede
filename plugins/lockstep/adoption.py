"""May a launch take over the pods that it finds? Pure.

A new Airflow try finds the pods of the one before when that one's worker process was lost. A gang that is whole and
well goes on under the new try; anything else is removed and launched afresh: a lone replaced worker can never rejoin.
"""

from __future__ import annotations

from collections.abc import Sequence

from lockstep.failure import failure_of
from lockstep.pod_plan import spec_digest
from lockstep.pod_snapshot import PodSnapshot
from lockstep.roles import TRAIN
from lockstep.training_spec import TrainingSpec


def adoptable(spec: TrainingSpec, found: Sequence[PodSnapshot]) -> bool:
    """Whether `found` is one whole, living or finished attempt of a gang launched with the same spec."""
    return (
        _is_whole(spec, found)
        and len({pod.attempt for pod in found}) == 1
        and {pod.spec for pod in found} == {spec_digest(spec)}
        and not any(pod.deletion_due or pod.failed or failure_of(pod) for pod in found)
    )


def _is_whole(spec: TrainingSpec, found: Sequence[PodSnapshot]) -> bool:
    """Whether all pods are there; of a gang that has succeeded, those that served it are ended first."""
    there = {pod.rank for pod in found}
    done = {pod.rank for pod in found if pod.succeeded}
    trainers = {rank for rank, member in enumerate(spec.members) if member.role in TRAIN}
    return len(there) == len(found) and (there == set(range(len(spec.members))) or trainers <= done)


def next_attempt(found: Sequence[PodSnapshot]) -> int:
    """One more than any attempt that left pods, so that no name is taken."""
    return max((pod.attempt for pod in found), default=0) + 1
