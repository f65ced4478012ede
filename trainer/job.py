"""What a user implements to train a model here, and how it is found: `job` names it, `job_params` are its arguments.

A job is any class with these five methods. It sees neither workers nor strategies: the same code runs on one worker
and on many.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping
from typing import Any, Protocol

import keras
import tensorflow as tf

from trainer.errors import InvalidRequest


class Job(Protocol):
    """A training job. `batch` below is whatever batch size the plan gives a replica."""

    def parse(self, record: tf.Tensor) -> tuple[Any, Any]:
        """Turn one serialized record (a scalar string) into (features, label), without a batch dimension.

        Features are one tensor, or a dict of tensors when the model has several inputs.
        """

    def model(self) -> keras.Model:
        """A new, uncompiled Keras 3 model; called again for the export, so it must not depend on anything outside."""

    def loss(self, labels: Any, predictions: Any) -> tf.Tensor:
        """The loss of each sample: shape [batch]."""

    def optimizer(self, learning_rate: Any) -> keras.optimizers.Optimizer:
        """The optimizer. `learning_rate` is a Keras schedule: scaled to the batch, with the warm-up in it."""

    def metrics(self, labels: Any, predictions: Any) -> Mapping[str, tf.Tensor]:
        """Further values of each sample, shape [batch] each; their means are reported, as is `accuracy` for example."""


def load_job(path: str, params: Mapping[str, Any]) -> Job:
    """Import `module:attribute` and call it with `params`.

    Raises InvalidRequest when there is no such thing or it takes other parameters; what its own code raises passes.
    """
    module_name, _, attribute = path.partition(":")
    factory = getattr(_import(module_name, path), attribute, None)
    if not callable(factory):
        raise InvalidRequest(f"job {path!r}: module {module_name} has nothing callable named {attribute!r}")
    try:
        inspect.signature(factory).bind(**params)
    except TypeError as error:
        raise InvalidRequest(f"job_params do not fit {path}{inspect.signature(factory)}: {error}") from error
    job = factory(**params)
    if lacking := [name for name in _METHODS if not callable(getattr(job, name, None))]:
        raise InvalidRequest(f"job {path!r} lacks the methods {lacking}; a job has {list(_METHODS)}")
    return job


_METHODS = ("parse", "model", "loss", "optimizer", "metrics")


def _import(module_name: str, path: str) -> Any:
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise
        raise InvalidRequest(
            f"job {path!r}: no module named {error.name!r} in this image; is it installed, or on PYTHONPATH?"
        ) from error
