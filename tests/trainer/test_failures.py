"""Whoever fails says why and with which status; the others say that they lost a peer, and never more."""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.trainer.gangs import Gangs

ALONE = {"workers": 1, "eval_data": None}


@pytest.mark.parametrize(
    ("asked", "status", "kind", "message"),
    [
        pytest.param({"job": "no.such:Job"}, 64, "request", "no module named 'no'", id="no such job: 64"),
        pytest.param({"global_batch_size": 2000}, 64, "request", "more than all 1437", id="batch too large: 64"),
        pytest.param({"job": "tests.trainer.jobs:PairJob"}, 64, "request", "flat dict of tensors", id="a pair: 64"),
        pytest.param({"train_data": "/dev/null"}, 65, "data", "training files hold no records", id="no records: 65"),
        pytest.param({"train_data": "/no/such/file-*"}, 65, "data", "no files match", id="no data: 65"),
        pytest.param({"job": "tests.trainer.jobs:BrokenJob"}, 1, "user", "ValueError: a layer of 0", id="a bug: 1"),
        pytest.param({"job": "tests.trainer.jobs:DivergingJob"}, 1, "user", "the loss is nan", id="no number: 1"),
        pytest.param({"job": "tests.trainer.jobs:MeanLossJob"}, 1, "user", "one value per sample", id="a mean loss: 1"),
    ],
)
def test_a_worker_alone_fails_with_the_reason(
    gangs: Gangs, asked: dict[str, Any], status: int, kind: str, message: str
) -> None:
    gang = gangs.start(gangs.run_directory(), **{**ALONE, **asked})
    assert gang.outcome() == [status], gang.logs()
    told = gang.message(0)
    assert told["kind"] == kind
    assert message in told["message"]
    assert ("jobs.py" in told["traceback"]) == (asked.get("job") == "tests.trainer.jobs:BrokenJob")


def test_a_run_directory_that_cannot_be_written_is_refused_before_training(gangs: Gangs, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    gang = gangs.start(tmp_path / "file" / "run", **ALONE)
    assert gang.outcome() == [64]
    assert f"cannot write to {tmp_path}/file/run" in gang.message(0)["message"]


def test_a_batch_that_cannot_be_split_is_refused_before_any_record_is_read(gangs: Gangs) -> None:
    """To count the records takes a pass over all data; here there is nothing to read."""
    asked = {"global_batch_size": 63, "train_samples": None, "train_data": "/dev/null", "eval_data": None}
    gang = gangs.start(gangs.run_directory(), **asked)
    assert gang.outcome() == [64, 64], gang.logs()
    assert "63 cannot be split evenly over 2 replicas" in gang.message(1)["message"]


def test_damaged_data_is_blamed_on_its_reader_alone(gangs: Gangs, digits: Path, tmp_path: Path) -> None:
    """File 1 of 8 belongs to worker 1; the other one only sees a failed collective."""
    shutil.copytree(digits, tmp_path / "digits")
    damaged = tmp_path / "digits" / "train-00001-of-00008.tfrecord"
    content = bytearray(damaged.read_bytes())
    content[len(content) // 2] ^= 1
    damaged.write_bytes(content)
    asked = {"train_data": f"{tmp_path}/digits/train-*.tfrecord", "sharding": "file", "eval_data": None}
    gang = gangs.start(gangs.run_directory(), **asked)
    assert gang.outcome() == [69, 65], gang.logs()
    assert [gang.message(rank)["kind"] for rank in (0, 1)] == ["peer_lost", "data"]
    assert "corrupted record" in gang.message(1)["message"]


def test_a_stalled_gang_ends_and_says_who_waited_for_what(gangs: Gangs) -> None:
    """tensorflow#37693: a collective that hangs without an error. Here because one worker's input hangs."""
    asked = {"job": "tests.trainer.jobs:StuckJob", "eval_data": None, "epochs": 50}
    gang = gangs.start(gangs.run_directory(), env={"LOCKSTEP_STALL_TIMEOUT_S": "15"}, **asked)
    statuses = gang.outcome()
    assert 75 in statuses, gang.logs()
    assert set(statuses) <= {69, 75}, gang.logs()
    for rank, waited_in in ((0, "step"), (1, "input")):
        told = gang.message(rank)
        assert told["kind"] == ("stall" if statuses[rank] == 75 else "peer_lost")
        assert told["phase"] == waited_in
        assert told["step"] > 0
    stalled = statuses.index(75)
    assert "most recent call first" in gang.log(stalled)


def test_a_missing_worker_is_named_by_those_who_wait(gangs: Gangs) -> None:
    gang = gangs.start(gangs.run_directory(), env={"LOCKSTEP_RENDEZVOUS_TIMEOUT_S": "5"})
    gang.send(1, signal.SIGKILL)
    assert gang.outcome() == [69, -signal.SIGKILL], gang.logs()
    told = gang.message(0)
    assert (told["kind"], told["phase"], told["step"]) == ("peer_lost", "rendezvous", None)
    assert "1 of 1 peers did not come within 5 s: worker 1 at 127.0.0.1:" in told["message"]


def test_a_request_that_cannot_be_read_is_refused_before_tensorflow_starts(gangs: Gangs) -> None:
    gang = gangs.start(gangs.run_directory(), workers=1, epochs=0, learning="fast")
    assert gang.outcome() == [64]
    assert "unknown keys ['learning']; valid keys are" in gang.message(0)["message"]
    assert json.dumps(gang.message(0))
