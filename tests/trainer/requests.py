"""Requests for tests: valid ones, of which a test shows only what matters to it."""

from __future__ import annotations

import json
from typing import Any

from trainer.training_request import TrainingRequest, parse_training_request

VALID: dict[str, Any] = {
    "job": "tests.trainer.jobs:TinyJob",
    "train_data": "gs://bucket/train-*",
    "epochs": 2,
    "learning_rate": 0.1,
}


def training(**asked: Any) -> TrainingRequest:
    """A training with a per-replica batch of 32 unless the test asks for a batch size."""
    sizes = {"per_replica_batch_size", "global_batch_size"} & asked.keys()
    return parse_training_request(json.dumps({**VALID, **({} if sizes else {"per_replica_batch_size": 32}), **asked}))
