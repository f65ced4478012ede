"""With the same global batch, one, two and four workers learn the same, step by step."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.trainer.gangs import Gangs, read_json

CLOSE = 1e-3


def curve(run: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def alone(gangs: Gangs) -> Path:
    """The run directory of a single worker."""
    run = gangs.run_directory()
    gang = gangs.start(run, workers=1)
    assert gang.outcome() == [0], gang.logs()
    return run


@pytest.mark.parametrize(
    ("workers", "sharding", "chief"),
    [
        pytest.param(2, "auto", False, id="two workers"),
        pytest.param(4, "data", False, id="four workers"),
        pytest.param(2, "auto", True, id="a chief and a worker"),
    ],
)
def test_more_workers_follow_the_curve_of_one(
    gangs: Gangs, alone: Path, workers: int, sharding: str, chief: bool
) -> None:
    run = gangs.run_directory()
    gang = gangs.start(run, workers=workers, sharding=sharding, chief=chief)
    assert gang.outcome() == [0] * workers, gang.logs()
    expected, seen = curve(alone), curve(run)
    assert len(expected) == len(seen) == 2
    for one, many in zip(expected, seen, strict=True):
        assert many == pytest.approx(one, rel=CLOSE)


def test_a_worker_alone_trains_with_the_mirrored_strategy(alone: Path) -> None:
    result = read_json(alone / "result.json")
    assert (result["workers"], result["replicas"], result["strategy"]) == (1, 1, "MirroredStrategy")
    assert result["sharding"]["policy"] == "FILE"


def test_every_held_out_sample_was_counted(alone: Path) -> None:
    assert read_json(alone / "result.json")["metrics"]["eval_samples"] == 360


def test_the_last_progress_is_the_end(alone: Path) -> None:
    progress = read_json(alone / "progress.json")
    assert progress["step"] == progress["steps"] == 44
    assert (progress["epoch"], progress["epochs"], progress["attempt"]) == (2, 2, 1)
