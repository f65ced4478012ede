"""An export needs neither this package nor MLflow to be made or used, and MLflow opens it all the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mlflow.pyfunc
import numpy as np
import pytest
import tensorflow as tf

from tests.trainer.jobs import TinyJob, keras
from trainer.mlmodel import write_mlmodel
from trainer.serving import save_model

IMAGE = tf.TensorSpec((8, 8, 1), tf.float32)


def two_inputs() -> Any:
    """A model of two inputs, by name."""
    left, right = keras.Input((3,), name="left"), keras.Input((2,), name="right")
    outputs = keras.layers.Dense(1)(keras.layers.Concatenate()([left, right]))
    return keras.Model({"left": left, "right": right}, outputs)


def test_mlflow_predicts_as_the_trained_model_does(tmp_path: Path) -> None:
    job = TinyJob(noisy=True)
    trained = job.model()
    save_model(trained, job.model(), IMAGE, tmp_path)
    write_mlmodel(tmp_path, IMAGE)
    images = np.random.default_rng(0).random((5, 8, 8, 1), dtype=np.float32)
    predicted = mlflow.pyfunc.load_model(str(tmp_path)).predict(images)
    np.testing.assert_allclose(predicted, trained(images, training=False), rtol=1e-5, atol=1e-6)


def test_mlflow_refuses_images_of_another_shape(tmp_path: Path) -> None:
    job = TinyJob()
    save_model(job.model(), job.model(), IMAGE, tmp_path)
    write_mlmodel(tmp_path, IMAGE)
    with pytest.raises(mlflow.MlflowException, match="shape"):
        mlflow.pyfunc.load_model(str(tmp_path)).predict(np.zeros((5, 7, 7, 1), np.float32))


def test_a_model_of_several_inputs_is_served_by_their_names(tmp_path: Path) -> None:
    trained, fresh = two_inputs(), two_inputs()
    specs = {"left": tf.TensorSpec((3,), tf.float32), "right": tf.TensorSpec((2,), tf.float32)}
    save_model(trained, fresh, specs, tmp_path)
    inputs = {"left": tf.ones((4, 3)), "right": tf.ones((4, 2))}
    served = tf.saved_model.load(str(tmp_path)).signatures["serving_default"](**inputs)
    np.testing.assert_allclose(served["outputs"], trained(inputs), rtol=1e-6)
