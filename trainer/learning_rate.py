"""The learning rate over the steps: a linear ramp, then constant. What it ramps to is the scaling plan's business."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf


class WarmUp(keras.optimizers.schedules.LearningRateSchedule):
    """Step s of the first `warmup_steps` has (s + 1) / warmup_steps of `learning_rate`, later ones all of it."""

    def __init__(self, learning_rate: float, warmup_steps: int) -> None:
        super().__init__()
        self.learning_rate = learning_rate
        self.warmup_steps = warmup_steps

    def __call__(self, step: Any) -> Any:
        ramp = (tf.cast(step, tf.float32) + 1.0) / max(self.warmup_steps, 1)
        return self.learning_rate * tf.minimum(ramp, 1.0)

    def get_config(self) -> dict[str, Any]:
        return {"learning_rate": self.learning_rate, "warmup_steps": self.warmup_steps}
