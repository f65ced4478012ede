"""The demo's data set is the same wherever and whenever it is written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import tensorflow as tf

from trainer.examples.digits import DigitsJob, prepare


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_writing_again_changes_nothing(digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    prepare(str(tmp_path), files=8)
    first = contents(tmp_path)
    capsys.readouterr()
    prepare(str(tmp_path), files=8)
    assert contents(tmp_path) == first
    assert "wrote" not in capsys.readouterr().out
    assert {name: first[name] for name in first if name.endswith(".tfrecord")} == {
        path.name: path.read_bytes() for path in digits.glob("*.tfrecord")
    }


def test_another_number_of_files_replaces_the_former_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    prepare(str(tmp_path), files=3)
    prepare(str(tmp_path), files=2)
    assert len(list(tmp_path.glob("train-*.tfrecord"))) == 2
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_every_image_is_in_exactly_one_file(digits: Path) -> None:
    dataset = json.loads((digits / "dataset.json").read_bytes())
    train = set(tf.data.TFRecordDataset(tf.io.gfile.glob(dataset["train_data"])).as_numpy_iterator())
    held_out = set(tf.data.TFRecordDataset(tf.io.gfile.glob(dataset["eval_data"])).as_numpy_iterator())
    assert (dataset["train_samples"], dataset["eval_samples"]) == (1437, 360)
    assert not train & held_out
    assert len(train) + len(held_out) == 1797


def test_a_record_becomes_an_image_and_its_label(digits: Path) -> None:
    records = tf.data.TFRecordDataset(str(digits / "eval-00000-of-00001.tfrecord"))
    image, label = next(iter(records.map(DigitsJob().parse)))
    assert image.shape == (8, 8, 1)
    assert 0 <= float(tf.reduce_min(image)) <= float(tf.reduce_max(image)) <= 1
    assert 0 <= int(label) <= 9
