"""What a model cannot be exported with is refused before training, not after it."""

from __future__ import annotations

from typing import Any

import pytest
import tensorflow as tf

from trainer.element_spec import check_element_spec
from trainer.errors import InvalidRequest

LABEL = tf.TensorSpec((), tf.int64)
VECTOR = tf.TensorSpec((3,), tf.float32)


@pytest.mark.parametrize(
    "features", [pytest.param(VECTOR, id="one tensor"), pytest.param({"a": VECTOR, "b": LABEL}, id="a dict of tensors")]
)
def test_features_that_have_names_or_need_none_are_fine(features: Any) -> None:
    check_element_spec((features, LABEL))


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        pytest.param(((VECTOR, VECTOR), LABEL), "one tensor or a flat dict of tensors", id="a tuple of tensors"),
        pytest.param(({"a": {"b": VECTOR}}, LABEL), "one tensor or a flat dict of tensors", id="a nested dict"),
        pytest.param(({}, LABEL), "one tensor or a flat dict of tensors", id="no features"),
        pytest.param((tf.SparseTensorSpec((3,)), LABEL), "one tensor or a flat dict of tensors", id="sparse"),
        pytest.param(VECTOR, r"must return \(features, label\)", id="no label"),
        pytest.param((tf.TensorSpec((None, 3)), LABEL), r"fixed shape.*\(None, 3\)", id="a size that varies"),
        pytest.param((tf.TensorSpec(None), LABEL), "fixed shape", id="a shape that nobody knows"),
        pytest.param((VECTOR, tf.TensorSpec((None,), tf.int64)), "fixed shape", id="labels of varying length"),
    ],
)
def test_what_could_not_be_served_is_refused(spec: Any, complaint: str) -> None:
    with pytest.raises(InvalidRequest, match=complaint):
        check_element_spec(spec)
