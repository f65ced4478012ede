"""Batch and learning rate scale together: the plan is computed once, printed by the chief and kept in the result.

Pure arithmetic; the learning rate schedule that follows the plan is built in `learning_rate`.
"""

from __future__ import annotations

from dataclasses import dataclass

from trainer.errors import InvalidRequest
from trainer.training_request import TrainingRequest


@dataclass(frozen=True, kw_only=True, slots=True)
class ScalingPlan:
    """Every worker runs `steps` = epochs × steps_per_epoch; a step trains on exactly `global_batch_size` samples."""

    replicas: int
    per_replica_batch_size: int
    global_batch_size: int
    learning_rate: float
    warmup_steps: int
    steps_per_epoch: int
    epochs: int
    train_samples: int

    @property
    def steps(self) -> int:
        return self.epochs * self.steps_per_epoch

    @property
    def left_over_samples(self) -> int:
        """Samples of an epoch that are too few for another step."""
        return self.train_samples - self.steps_per_epoch * self.global_batch_size

    def describe(self) -> str:
        return (
            f"plan: batch {self.global_batch_size} = {self.replicas} replicas × {self.per_replica_batch_size}, "
            f"learning rate {self.learning_rate:g} after {self.warmup_steps} warm-up steps, "
            f"{self.epochs} epochs × {self.steps_per_epoch} steps over {self.train_samples} samples "
            f"({self.left_over_samples} left over, too few for another step)"
        )


def plan_scaling(training: TrainingRequest, replicas: int, train_samples: int) -> ScalingPlan:
    """Turn a request into batch sizes, learning rate and steps for this many replicas. Pure.

    Raises InvalidRequest when the global batch cannot be split evenly, or is larger than the data.
    """
    per_replica_batch_size = split_batch(training, replicas)
    global_batch_size = per_replica_batch_size * replicas
    if global_batch_size > train_samples:
        raise InvalidRequest(
            f"a global batch of {global_batch_size} is more than all {train_samples} training samples: "
            "ask for a smaller batch or fewer workers"
        )
    steps_per_epoch = train_samples // global_batch_size
    return ScalingPlan(
        replicas=replicas,
        per_replica_batch_size=per_replica_batch_size,
        global_batch_size=global_batch_size,
        learning_rate=training.learning_rate * global_batch_size / _reference_batch_size(training),
        warmup_steps=round(training.warmup_epochs * steps_per_epoch),
        steps_per_epoch=steps_per_epoch,
        epochs=training.epochs,
        train_samples=train_samples,
    )


def split_batch(training: TrainingRequest, replicas: int) -> int:
    """The samples of a step for each replica. Raises InvalidRequest when the global batch cannot be split evenly."""
    if training.per_replica_batch_size is not None:
        return training.per_replica_batch_size
    assert training.global_batch_size is not None
    if training.global_batch_size % replicas:
        raise InvalidRequest(
            f"global_batch_size {training.global_batch_size} cannot be split evenly over {replicas} replicas: "
            f"ask for a multiple of {replicas}"
        )
    return training.global_batch_size // replicas


def _reference_batch_size(training: TrainingRequest) -> int:
    reference = training.learning_rate_batch_size or training.per_replica_batch_size or training.global_batch_size
    assert reference is not None
    return reference
