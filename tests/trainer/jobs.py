"""Jobs for tests, on the digits' records: small, quick, and wrong in the ways that a test asks for."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any

from trainer.examples.digits import IMAGE_SHAPE, DigitsJob, keras, tf


class TinyJob(DigitsJob):
    """A network small enough to train in no time. `noisy` adds dropout and batch normalization, whose state is the
    hardest to resume."""

    def __init__(self, noisy: bool = False) -> None:
        super().__init__()
        self._noisy = noisy

    def model(self) -> Any:
        layers = keras.layers
        noise = [layers.BatchNormalization(), layers.Dropout(0.3)] if self._noisy else []
        inputs = [keras.Input(IMAGE_SHAPE), layers.Flatten(), layers.Dense(16, activation="relu")]
        return keras.Sequential([*inputs, *noise, layers.Dense(10)])


class BrokenJob(TinyJob):
    """Raises an error of its own while its model is made."""

    def model(self) -> Any:
        raise ValueError("a layer of 0 units")


class DivergingJob(TinyJob):
    """Its loss is no number from the first step on."""

    def loss(self, labels: Any, predictions: Any) -> Any:
        return super().loss(labels, predictions) * float("nan")


class PairJob(TinyJob):
    """Its features are a pair, which no exported model could name."""

    def parse(self, record: Any) -> tuple[Any, Any]:
        image, label = super().parse(record)
        return (image, image), label


class StuckJob(TinyJob):
    """Reading a record takes for ever on worker 1, after some."""

    def parse(self, record: Any) -> tuple[Any, Any]:
        image, label = super().parse(record)
        return tf.ensure_shape(tf.py_function(_stick_on_worker_1, [image], tf.float32), image.shape), label


class MeanLossJob(TinyJob):
    """Returns one loss for the whole batch, which is not what a job promises."""

    def loss(self, labels: Any, predictions: Any) -> Any:
        return tf.reduce_mean(super().loss(labels, predictions))

    def metrics(self, labels: Any, predictions: Any) -> Mapping[str, Any]:
        return {}


_read = 0


def _stick_on_worker_1(image: Any) -> Any:
    global _read
    _read += 1
    if os.environ["LOCKSTEP_RANK"] == "1" and _read > 300:
        time.sleep(3600)
    return image
