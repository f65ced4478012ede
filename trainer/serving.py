"""The trained model as a TensorFlow SavedModel that knows nothing of strategies, workers or this package.

It is a fresh copy with the trained weights: no collective is needed to save it, and none is left inside.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

INPUT_NAME = "inputs"
OUTPUT_NAME = "outputs"


class ServedModel(tf.Module):
    """Callable on a batch of features, as `parse` yields them; the same under the signature `serving_default`."""

    def __init__(self, model: keras.Model, feature_spec: Any) -> None:
        super().__init__(name="served")
        self.weights = [variable.value for variable in model.variables]
        batch = tf.nest.map_structure(_batched, _named(feature_spec))
        self._predict = tf.function(lambda inputs: model(inputs, training=False), input_signature=[batch])

    @tf.function
    def __call__(self, inputs: Any) -> Any:
        return self._predict(inputs)


def save_model(trained: keras.Model, fresh: keras.Model, feature_spec: Any, directory: Path) -> None:
    """Write the SavedModel. `fresh` is another instance of the trained model's architecture; `feature_spec` is one
    tensor's spec, or a dict of them, without the batch dimension."""
    if not fresh.built:
        fresh(tf.nest.map_structure(lambda spec: tf.zeros([1, *spec.shape], spec.dtype), feature_spec), training=False)
    fresh.set_weights(trained.get_weights())
    served = ServedModel(fresh, feature_spec)
    tf.saved_model.save(served, str(directory), signatures={"serving_default": _signature(served, feature_spec)})


def _signature(served: ServedModel, feature_spec: Any) -> Any:
    """Named inputs and outputs, as serving systems want them, and the trace that fixes what `__call__` takes."""
    batch = tf.nest.map_structure(_batched, _named(feature_spec))
    served.__call__.get_concrete_function(batch)
    if isinstance(batch, dict):
        return tf.function(lambda **inputs: _outputs(served(inputs))).get_concrete_function(**batch)
    return tf.function(lambda inputs: _outputs(served(inputs))).get_concrete_function(batch)


def _outputs(predictions: Any) -> dict[str, Any]:
    if isinstance(predictions, dict):
        return predictions
    flat = tf.nest.flatten(predictions)
    return {OUTPUT_NAME: flat[0]} if len(flat) == 1 else {f"{OUTPUT_NAME}_{i}": value for i, value in enumerate(flat)}


def _named(feature_spec: Any) -> Any:
    if isinstance(feature_spec, dict):
        return {name: tf.TensorSpec(spec.shape, spec.dtype, name=name) for name, spec in feature_spec.items()}
    return tf.TensorSpec(feature_spec.shape, feature_spec.dtype, name=INPUT_NAME)


def _batched(spec: tf.TensorSpec) -> tf.TensorSpec:
    return tf.TensorSpec([None, *spec.shape], spec.dtype, name=spec.name)
