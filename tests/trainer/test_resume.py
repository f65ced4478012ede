"""A training that was interrupted, in whatever way, ends in the very state that it would have ended in otherwise."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
import tensorflow as tf

from tests.trainer.gangs import Gangs, backups, digest_of_state, files_below, read_json
from tests.trainer.jobs import TinyJob

# Dropout and batch normalization have the state that is forgotten most easily: seeds and moving averages.
ASKED = {"job_params": {"noisy": True}, "epochs": 6, "sharding": "data"}


@pytest.fixture(scope="module")
def uninterrupted(gangs: Gangs) -> Path:
    """The run directory of a training that nothing interrupted."""
    run = gangs.run_directory()
    gang = gangs.start(run, **ASKED)
    assert gang.outcome() == [0, 0], gang.logs()
    return run


def test_stopped_and_killed_and_damaged_it_ends_in_the_same_state(gangs: Gangs, uninterrupted: Path) -> None:
    run = gangs.run_directory()

    first = gangs.start(run, attempt=1, **ASKED)
    first.until(lambda: len(backups(run)) >= 1)
    first.send(1, signal.SIGTERM)
    assert first.outcome() == [143, 143], first.logs()
    told = [first.message(rank) for rank in (0, 1)]
    stopped_at = int(backups(run)[-1])
    assert {message["kind"] for message in told} == {"stopped"}
    assert {message["step"] for message in told} == {stopped_at}
    assert all("the state is saved" in message["message"] for message in told)

    second = gangs.start(run, attempt=2, **ASKED)
    second.until(lambda: int(backups(run)[-1]) > stopped_at)
    second.send(1, signal.SIGKILL)
    assert second.outcome() == [69, -signal.SIGKILL], second.logs()
    assert second.message(0)["kind"] == "peer_lost"
    assert f"resumed from the backup of step {stopped_at}" in second.log(0)

    older, newest = backups(run)
    _flip_a_bit(run / "backup" / newest / "variables.data-00000-of-00001")
    third = gangs.start(run, attempt=3, **ASKED)
    assert third.outcome() == [0, 0], third.logs()
    assert f"backup {newest} is ignored" in third.log(0)
    result = read_json(run / "result.json")
    assert (result["attempt"], result["resumed_from_step"]) == (3, int(older))
    assert digest_of_state(run) == digest_of_state(uninterrupted)
    assert (run / "metrics.jsonl").read_bytes() == (uninterrupted / "metrics.jsonl").read_bytes()


def test_a_complete_run_is_left_alone_and_a_damaged_export_is_made_again(gangs: Gangs, uninterrupted: Path) -> None:
    before = files_below(uninterrupted)
    again = gangs.start(uninterrupted, attempt=2, **ASKED)
    assert again.outcome() == [0, 0], again.logs()
    assert files_below(uninterrupted) == before

    (uninterrupted / "model" / "saved_model.pb").write_bytes(b"half of i")
    repair = gangs.start(uninterrupted, attempt=3, **ASKED)
    assert repair.outcome() == [0, 0], repair.logs()
    after = files_below(uninterrupted)
    result = read_json(uninterrupted / "result.json")
    assert (result["resumed_from_step"], result["step"]) == (132, 132)
    assert len(after["model/saved_model.pb"]) > 1000
    unchanged = [path for path in before if path.startswith(("checkpoints/", "backup/", "metrics"))]
    assert all(after[path] == before[path] for path in unchanged)


def test_another_training_is_never_continued(gangs: Gangs, uninterrupted: Path, tmp_path: Path) -> None:
    (tmp_path / "backup").symlink_to(uninterrupted / "backup")
    other = gangs.start(tmp_path, workers=1, **{**ASKED, "epochs": 7})
    assert other.outcome() == [64]
    assert "made by another training" in other.message(0)["message"]


def test_the_exported_model_is_the_one_that_was_measured(uninterrupted: Path, digits: Path) -> None:
    """Moving averages differ between workers; what counts are the chief's, in the metrics as in the export."""
    records = tf.data.TFRecordDataset(str(next(digits.glob("eval-*"))))
    images, labels = next(iter(records.map(TinyJob().parse).batch(1000)))
    predictions = tf.saved_model.load(str(uninterrupted / "model"))(images)
    metrics = read_json(uninterrupted / "result.json")["metrics"]
    assert len(labels) == metrics["eval_samples"] == 360
    assert float(tf.reduce_mean(TinyJob().loss(labels, predictions))) == pytest.approx(metrics["eval_loss"], rel=1e-3)


def test_a_run_keeps_two_backups_and_two_checkpoints(uninterrupted: Path) -> None:
    assert backups(uninterrupted) == ["00000130", "00000132"]
    assert sorted(path.name for path in (uninterrupted / "checkpoints").iterdir()) == ["step-00000110", "step-00000132"]


def _flip_a_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
