"""The `MLmodel` file that lets `mlflow.pyfunc.load_model` open an exported model.

Written as data, in MLflow's `tensorflow` flavour for SavedModels (`tf2-module`), so that the image needs no MLflow.
"""

from __future__ import annotations

import json
import platform
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf


def write_mlmodel(directory: Path, feature_spec: Any) -> None:
    """Describe the SavedModel in `directory`; `feature_spec` as `parse` yields features, without the batch dimension.
    JSON is YAML too."""
    flavors = {
        "python_function": {"loader_module": "mlflow.tensorflow", "python_version": platform.python_version()},
        "tensorflow": {"code": None, "model_type": "tf2-module", "saved_model_dir": "."},
    }
    document: dict[str, Any] = {"flavors": flavors, "signature": {"inputs": json.dumps(_tensors(feature_spec))}}
    (directory / "MLmodel").write_text(json.dumps(document, indent=2) + "\n")
    (directory / "requirements.txt").write_text(f"tensorflow=={tf.__version__}\nkeras=={keras.__version__}\n")


def _tensors(feature_spec: Any) -> list[dict[str, Any]]:
    if isinstance(feature_spec, dict):
        return [{"name": name, **_tensor(spec)} for name, spec in feature_spec.items()]
    return [_tensor(feature_spec)]


def _tensor(spec: tf.TensorSpec) -> dict[str, Any]:
    shape = [-1, *(-1 if size is None else size for size in spec.shape)]
    return {"type": "tensor", "tensor-spec": {"dtype": np.dtype(spec.dtype.as_numpy_dtype).name, "shape": shape}}
