"""`python -m trainer.verify_model gs://bucket/run`: does the exported model load in a fresh process, and predict?

Checks every byte against the manifest, loads the model without the code that made it, and predicts on a batch.
Exit status 0 or 65, with a termination message as the trainer's.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

from trainer import exit_codes
from trainer.ending import leave, report_failure
from trainer.errors import InvalidData
from trainer.lean_import import lean_import
from trainer.pulse import Pulse
from trainer.run_context import termination_log

BATCH_SIZE: Final = 4


def main(arguments: Sequence[str]) -> NoReturn:
    """Verify, and end the process."""
    parser = argparse.ArgumentParser(prog="python -m trainer.verify_model", description=__doc__)
    parser.add_argument("run_directory", help="a run directory with a result.json")
    asked = parser.parse_args(arguments)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    try:
        verify(asked.run_directory.rstrip("/"))
    except Exception as error:
        leave(report_failure(error, 1, Pulse(), termination_log(os.environ)))
    leave(exit_codes.DONE)


def verify(run_directory: str) -> None:
    """Raises InvalidData naming the first thing that is wrong."""
    with lean_import():
        from trainer import storage
        from trainer.publication import Damaged, fetch
    result = storage.read_json(storage.join(run_directory, "result.json"))
    if not isinstance(result, dict):
        raise InvalidData(f"{run_directory} has no result.json: its training has not finished")
    with tempfile.TemporaryDirectory() as local:
        try:
            manifest = fetch(storage.join(run_directory, result["model"]), Path(local))
        except Damaged as damage:
            raise InvalidData(str(damage)) from damage
        print(f"model: {len(manifest.files)} files, {sum(entry.size_bytes for entry in manifest.files)} bytes verified")
        model = _load(local, run_directory)
    print(_predict_once(model))


def _load(directory: str, run_directory: str) -> Any:
    import tensorflow as tf

    try:
        return tf.saved_model.load(directory)
    except (OSError, ValueError, tf.errors.OpError) as error:
        raise InvalidData(f"the model of {run_directory} does not load: {error}") from error


def _predict_once(model: Any) -> str:
    """Predict on a batch of zeros in the shape that the signature asks for; unknown sizes are 1."""
    import tensorflow as tf

    signature = model.signatures["serving_default"]
    inputs = {
        name: tf.zeros(_shape(spec), spec.dtype) for name, spec in signature.structured_input_signature[1].items()
    }
    outputs = signature(**inputs)
    for name, values in outputs.items():
        if values.shape[:1] != (BATCH_SIZE,):
            raise InvalidData(f"the model's {name} for {BATCH_SIZE} samples has shape {values.shape}")
        if values.dtype.is_floating and not bool(tf.reduce_all(tf.math.is_finite(values))):
            raise InvalidData(f"the model's {name} for a batch of zeros is not finite")
    shapes = {name: tuple(values.shape) for name, values in {**inputs, **outputs}.items()}
    return f"model: loads in a fresh process, and predicts ({shapes})"


def _shape(spec: Any) -> list[int]:
    return [BATCH_SIZE, *(size or 1 for size in spec.shape[1:])]


if __name__ == "__main__":
    main(sys.argv[1:])
