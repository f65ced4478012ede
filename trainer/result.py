"""The result of a run: result.json, written last of all, and whether a run directory is complete already."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from trainer import storage
from trainer.publication import is_whole
from trainer.run_context import RunContext
from trainer.run_files import RunFiles
from trainer.scaling import ScalingPlan
from trainer.sharding import ShardingPlan
from trainer.strategy import strategy_name
from trainer.training_state import TrainingState


def is_complete(files: RunFiles) -> bool:
    """Whether everything a result promises is there, by manifests and sizes: then there is nothing left to do.

    A directory that may not be read is not complete; the preflight explains it.
    """
    try:
        result = storage.read_json(files.result)
    except (tf.errors.PermissionDeniedError, tf.errors.UnauthenticatedError, tf.errors.FailedPreconditionError):
        return False
    if not isinstance(result, dict):
        return False
    return all(is_whole(storage.join(files.root, result[key])) for key in ("model", "checkpoint"))


def describe_result(
    *,
    context: RunContext,
    plan: ScalingPlan,
    sharding: ShardingPlan,
    state: TrainingState,
    resumed_from_step: int | None,
    seconds: dict[str, float],
) -> dict[str, Any]:
    """The content of result.json, schema 1. Metrics are those of the last epoch."""
    return {
        "schema": 1,
        "step": state.step,
        "epochs": plan.epochs,
        "workers": context.workers,
        "replicas": plan.replicas,
        "strategy": strategy_name(context.workers),
        "attempt": context.attempt,
        "resumed_from_step": resumed_from_step,
        "sharding": sharding.report(),
        "scaling": _scaling(plan),
        "metrics": {name: value for name, value in state.history[-1].items() if name not in ("epoch", "step")},
        "checkpoint": RunFiles.checkpoint_path(state.step),
        "model": RunFiles(root="").model_path,
        "seconds": {name: round(value, 3) for name, value in seconds.items()},
    }


def _scaling(plan: ScalingPlan) -> dict[str, Any]:
    return {
        "per_replica_batch_size": plan.per_replica_batch_size,
        "global_batch_size": plan.global_batch_size,
        "learning_rate": plan.learning_rate,
        "warmup_steps": plan.warmup_steps,
        "steps_per_epoch": plan.steps_per_epoch,
        "train_samples": plan.train_samples,
    }
