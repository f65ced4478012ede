"""Which training a backup belongs to: the same request, planned alike, over the same files.

With another plan the same step would stand for other samples, and the last one might never come.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from trainer.scaling import ScalingPlan
from trainer.sharding import ShardingPlan
from trainer.training_request import TrainingRequest


def identify_training(
    training: TrainingRequest, plan: ScalingPlan, sharding: ShardingPlan, files: Sequence[str]
) -> dict[str, Any]:
    """Plain JSON, equal for equal trainings. Pure; named values, so that a difference can be named too."""
    return {
        "request": training.digest,
        "files": hashlib.sha256("\n".join(sorted(files)).encode()).hexdigest(),
        "workers": sharding.workers,
        "sharding": sharding.policy,
        **asdict(plan),
    }
