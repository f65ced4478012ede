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
    """Whether `found` is one whole, living or finished attempt of a gang launched with the same spec.

    Where ended pods are kept, finished ones prove nothing: they may stand since the task succeeded and was cleared.
    """
    needed, there = _needed(spec, found)
    kept = spec.clean_up == "keep" and all(pod.succeeded for pod in there)
    return (
        not kept
        and sorted(pod.rank for pod in there) == needed
        and len({pod.attempt for pod in found}) == 1
        and {pod.spec for pod in found} == {spec_digest(spec)}
        and not any(pod.deletion_due or pod.failed or failure_of(pod) for pod in there)
    )


def _needed(spec: TrainingSpec, found: Sequence[PodSnapshot]) -> tuple[list[int], list[PodSnapshot]]:
    """Which ranks must be there, and the pods to look at: once all that train have succeeded, they alone."""
    training = [rank for rank, member in enumerate(spec.members) if member.role in TRAIN]
    if set(training) <= {pod.rank for pod in found if pod.succeeded}:
        return training, [pod for pod in found if pod.rank in training]
    return list(range(len(spec.members))), list(found)


def next_attempt(found: Sequence[PodSnapshot]) -> int:
    """One more than any attempt that left pods, so that no name is taken."""
    return max((pod.attempt for pod in found), default=0) + 1
