"""The demo job: a small convolutional network learns to read the UCI handwritten digits, 1,797 images of 8 × 8 pixels.

`python -m trainer.examples.digits prepare --output gs://bucket/datasets/digits --files 8` writes the data set as
TFRecord files; scikit-learn ships the images, so nothing is downloaded.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any, Final

from trainer.lean_import import lean_import

with lean_import():  # a job needs no such thing: it makes the command line below start sooner
    import keras
    import numpy as np
    import tensorflow as tf

    from trainer import storage

IMAGE_SHAPE: Final = (8, 8, 1)
CLASSES: Final = 10
BRIGHTEST: Final = 16.0
EVAL_EVERY: Final = 5
_SPLIT_SEED: Final = 20
_SHARD_NAME: Final = re.compile(r"(train|eval)-\d{5}-of-\d{5}\.tfrecord")


class DigitsJob:
    """Classifies digits; about 97 % of those held out after a few seconds of training."""

    def __init__(self, filters: int = 32, dropout: float = 0.2) -> None:
        self._filters = filters
        self._dropout = dropout

    def parse(self, record: tf.Tensor) -> tuple[Any, Any]:
        """One tf.train.Example -> (pixels in 0…1 of shape [8, 8, 1], label)."""
        features = {
            "image": tf.io.FixedLenFeature(IMAGE_SHAPE, tf.float32),
            "label": tf.io.FixedLenFeature([], tf.int64),
        }
        example = tf.io.parse_single_example(record, features)
        return example["image"] / BRIGHTEST, example["label"]

    def model(self) -> keras.Model:
        layers = keras.layers
        return keras.Sequential(
            [
                keras.Input(IMAGE_SHAPE, name="pixels"),
                layers.Conv2D(self._filters, 3, padding="same", activation="relu"),
                layers.Conv2D(2 * self._filters, 3, padding="same", activation="relu"),
                layers.MaxPooling2D(),
                layers.Flatten(),
                layers.Dense(64, activation="relu"),
                layers.Dropout(self._dropout),
                layers.Dense(CLASSES, name="logits"),
            ],
            name="digits",
        )

    def loss(self, labels: Any, predictions: Any) -> Any:
        return keras.losses.sparse_categorical_crossentropy(labels, predictions, from_logits=True)

    def optimizer(self, learning_rate: Any) -> keras.optimizers.Optimizer:
        return keras.optimizers.Adam(learning_rate)

    def metrics(self, labels: Any, predictions: Any) -> Mapping[str, Any]:
        return {"accuracy": tf.cast(tf.equal(tf.argmax(predictions, axis=-1), labels), tf.float32)}


def prepare(output: str, files: int) -> dict[str, Any]:
    """Write train-*.tfrecord (`files` of them), eval-00000-of-00001.tfrecord and, last, dataset.json with the counts.

    The same call writes the same bytes; files that are there with these bytes are left alone. Files of another split
    are removed, because `train-*` would find them too.
    """
    train, held_out = _split()
    shards = {f"train-{shard:05d}-of-{files:05d}.tfrecord": train[shard::files] for shard in range(files)}
    shards["eval-00000-of-00001.tfrecord"] = held_out
    for name in storage.names_in(output):
        if _SHARD_NAME.fullmatch(name) and name not in shards:
            storage.remove(storage.join(output, name))
    for name, examples in shards.items():
        size_bytes, written = _write_once(storage.join(output, name), _serialize(examples))
        print(f"{'wrote' if written else 'kept'} {name}: {len(examples)} images, {size_bytes} bytes", flush=True)
    dataset = _describe(output, files, len(train), len(held_out))
    _write_once(storage.join(output, "dataset.json"), storage.encode_json(dataset))
    print(f"{output}: {len(train)} images to train with in {files} files, {len(held_out)} held out", flush=True)
    return dataset


def _split() -> tuple[list[tuple[Any, int]], list[tuple[Any, int]]]:
    """Every fifth image of a fixed shuffle is held out."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    order = np.random.RandomState(_SPLIT_SEED).permutation(len(digits.images))
    examples = [(digits.images[index], int(digits.target[index])) for index in order]
    held_out = examples[::EVAL_EVERY]
    return [example for index, example in enumerate(examples) if index % EVAL_EVERY], held_out


def _describe(output: str, files: int, train_samples: int, eval_samples: int) -> dict[str, Any]:
    return {
        "schema": 1,
        "train_data": storage.join(output, "train-*.tfrecord"),
        "eval_data": storage.join(output, "eval-*.tfrecord"),
        "train_samples": train_samples,
        "eval_samples": eval_samples,
        "train_files": files,
    }


def _serialize(examples: Sequence[tuple[Any, int]]) -> bytes:
    """The bytes of a TFRecord file."""
    with tempfile.NamedTemporaryFile(suffix=".tfrecord") as file:
        with tf.io.TFRecordWriter(file.name) as writer:
            for pixels, label in examples:
                writer.write(_example(pixels, label))
        return file.read()


def _example(pixels: Any, label: int) -> bytes:
    image = tf.train.Feature(float_list=tf.train.FloatList(value=pixels.ravel()))
    number = tf.train.Feature(int64_list=tf.train.Int64List(value=[label]))
    example = tf.train.Example(features=tf.train.Features(feature={"image": image, "label": number}))
    return bytes(example.SerializeToString(deterministic=True))


def _write_once(path: str, content: bytes) -> tuple[int, bool]:
    """Write unless these very bytes are there; return size, and whether it wrote. Raises OSError if it is not there
    afterwards."""
    if storage.read_bytes(path) == content:
        return len(content), False
    storage.write_bytes(path, content)
    if storage.size_bytes(path) != len(content):
        raise OSError(f"{path} was written with {len(content)} bytes and now has {storage.size_bytes(path)}")
    return len(content), True


def main(arguments: Sequence[str]) -> None:
    """The command line: `prepare`."""
    parser = argparse.ArgumentParser(prog="python -m trainer.examples.digits", description=__doc__)
    commands = parser.add_subparsers(required=True)
    preparing = commands.add_parser("prepare", help="write the data set as TFRecord files")
    preparing.add_argument("--output", required=True, help="directory, usually gs://bucket/datasets/digits")
    preparing.add_argument("--files", type=int, default=8, choices=range(1, 1000), metavar="1…999", help="shards")
    asked = parser.parse_args(arguments)
    prepare(asked.output, asked.files)


if __name__ == "__main__":
    main(sys.argv[1:])
