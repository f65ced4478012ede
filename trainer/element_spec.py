"""What a job's `parse` yields, and whether a model can be tried out, trained and served on it.

Looked at before training, so that an export cannot fail over it afterwards.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from trainer.errors import InvalidRequest
from trainer.job import Job


def find_element_spec(job: Job, file: str) -> tuple[Any, Any]:
    """The specs of (features, label), without a batch dimension. Reads nothing. Raises InvalidRequest."""
    spec = tf.data.TFRecordDataset(file).map(job.parse).element_spec
    check_element_spec(spec)
    return spec


def check_element_spec(spec: Any) -> None:
    """Raises InvalidRequest unless it is (features, label), and the features one tensor or a flat dict of tensors."""
    if not (isinstance(spec, tuple) and len(spec) == 2):
        raise InvalidRequest(f"the job's parse must return (features, label), and returns {spec}")
    features, _ = spec
    tensors = list(features.values()) if isinstance(features, dict) else [features]
    if not tensors or not all(isinstance(tensor, tf.TensorSpec) for tensor in tensors):
        raise InvalidRequest(
            f"the features of the job's parse must be one tensor or a flat dict of tensors, and are {features}: "
            "an exported model has named inputs, so give each of them a name"
        )
    for tensor in tf.nest.flatten(spec):
        if not (isinstance(tensor, tf.TensorSpec) and tensor.shape.is_fully_defined()):
            raise InvalidRequest(
                f"the job's parse must return tensors of a fixed shape, and returns {tensor}: "
                "pad or cut to one size, or say it with tf.ensure_shape"
            )
