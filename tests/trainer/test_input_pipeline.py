"""Which samples a step trains on depends on seed and step alone: not on workers, policy or interruptions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from trainer.errors import InvalidData
from trainer.input_pipeline import (
    InputShare,
    check_any_record,
    count_records,
    eval_batches,
    list_files,
    own_files,
    sizes_of,
    train_batches,
)
from trainer.scaling import ScalingPlan
from trainer.sharding import plan_sharding
from trainer.training_request import Sharding

GLOBAL_BATCH = 8
SIZES = (13, 12, 12, 12)
SAMPLES = sum(SIZES)
STEPS_PER_EPOCH = SAMPLES // GLOBAL_BATCH


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    """Four files of numbered records, no number twice, of almost equal length."""
    directory, number = tmp_path_factory.mktemp("records"), iter(range(SAMPLES))
    for index, size in enumerate(SIZES):
        with tf.io.TFRecordWriter(str(directory / f"part-{index}")) as writer:
            for _ in range(size):
                writer.write(str(next(number)).encode())
    return list_files(str(directory / "part-*"))


def parse(record: Any) -> tuple[Any, Any]:
    return tf.strings.to_number(record, tf.int64), tf.constant(0)


def plan(workers: int, epochs: int = 3) -> ScalingPlan:
    return ScalingPlan(
        replicas=workers,
        per_replica_batch_size=GLOBAL_BATCH // workers,
        global_batch_size=GLOBAL_BATCH,
        learning_rate=0.1,
        warmup_steps=0,
        steps_per_epoch=STEPS_PER_EPOCH,
        epochs=epochs,
        train_samples=SAMPLES,
    )


def global_batches(
    files: tuple[str, ...], workers: int, policy: Sharding, first_step: int = 0, steps: int = 14, seed: int = 0
) -> list[list[int]]:
    """The numbers that all workers together see in each step, sorted within the step."""
    streams = []
    for rank in range(workers):
        sharding = plan_sharding(policy, len(files), workers, lambda: [100] * len(files))
        share = InputShare(files=files, sharding=sharding, rank=rank, local_replicas=1, seed=seed)
        streams.append(train_batches(share, plan(workers), parse, first_step).take(steps).as_numpy_iterator())
    return [sorted(int(n) for numbers, _ in step for n in numbers) for step in zip(*streams, strict=True)]


@pytest.mark.parametrize(
    ("workers", "policy"),
    [(1, "data"), (2, "file"), (2, "data"), (4, "file"), (4, "data")],
)
def test_any_number_of_workers_sees_the_same_global_batches(
    files: tuple[str, ...], workers: int, policy: Sharding
) -> None:
    assert global_batches(files, workers, policy) == global_batches(files, 1, "file")


@pytest.mark.parametrize("first_step", [1, STEPS_PER_EPOCH - 1, STEPS_PER_EPOCH, STEPS_PER_EPOCH + 2])
@pytest.mark.parametrize("policy", ["file", "data"])
def test_a_resumed_run_sees_what_an_uninterrupted_one_would_have(
    files: tuple[str, ...], policy: Sharding, first_step: int
) -> None:
    """keras-hub#204: a resumed run repeated data."""
    whole = global_batches(files, 2, policy)
    assert global_batches(files, 2, policy, first_step, len(whole) - first_step) == whole[first_step:]


def test_no_sample_comes_twice_in_an_epoch_and_each_epoch_has_its_own_order(files: tuple[str, ...]) -> None:
    batches = global_batches(files, 2, "auto", steps=2 * STEPS_PER_EPOCH)
    first, second = batches[:STEPS_PER_EPOCH], batches[STEPS_PER_EPOCH:]
    for epoch in (first, second):
        numbers = [number for batch in epoch for number in batch]
        assert len(set(numbers)) == len(numbers) == STEPS_PER_EPOCH * GLOBAL_BATCH
    assert first != second


def test_another_seed_is_another_order(files: tuple[str, ...]) -> None:
    assert global_batches(files, 1, "auto", seed=1) != global_batches(files, 1, "auto", seed=2)


def test_uneven_shards_never_run_dry(files: tuple[str, ...]) -> None:
    """tensorflow#36153: a worker with less data ended, or got empty batches."""
    batches = global_batches(files[:3], 2, "file", steps=5 * STEPS_PER_EPOCH)
    assert {len(batch) for batch in batches} == {GLOBAL_BATCH}


@pytest.mark.parametrize("workers", [1, 2, 3, 5])
def test_every_held_out_sample_is_counted_exactly_once(files: tuple[str, ...], workers: int) -> None:
    shares = [eval_batches(files, rank, workers, 5, parse).as_numpy_iterator() for rank in range(workers)]
    assert sorted(int(n) for share in shares for numbers, _ in share for n in numbers) == list(range(SAMPLES))


def test_records_are_counted(files: tuple[str, ...]) -> None:
    assert count_records(files, lambda: None) == SAMPLES
    assert count_records((), lambda: None) == 0


def test_counting_shows_that_it_goes_on(files: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """A count that took longer than the stall timeout was ended as a stall."""
    monkeypatch.setattr("trainer.input_pipeline._RECORDS_PER_BEAT", 10)
    beats: list[None] = []
    assert count_records(files, lambda: beats.append(None)) == SAMPLES
    assert len(beats) == 5


def test_files_without_any_record_are_refused(files: tuple[str, ...], tmp_path: Path) -> None:
    """They would make an endless stream of nothing, and a worker that waits for its first batch for ever."""
    empty = str(tmp_path / "empty")
    Path(empty).touch()
    check_any_record([empty, *files])
    with pytest.raises(InvalidData, match=r"hold no records: 1 were looked at, the first is .*/empty"):
        check_any_record([empty])


def test_sizes_are_those_of_the_files_in_their_order(files: tuple[str, ...], tmp_path: Path) -> None:
    assert sizes_of([*files, str(tmp_path / "vanished")]) == [*(Path(file).stat().st_size for file in files), 0]


@pytest.mark.parametrize(("policy", "expected"), [("file", [1, 3]), ("data", [0, 1, 2, 3])])
def test_a_worker_reads_its_own_files_or_all(files: tuple[str, ...], policy: Sharding, expected: list[int]) -> None:
    sharding = plan_sharding(policy, len(files), 2, lambda: [1] * len(files))
    assert own_files(files, sharding, 1) == tuple(files[index] for index in expected)


def test_no_files_is_an_error_that_names_the_pattern(tmp_path: Path) -> None:
    with pytest.raises(InvalidData, match=r"no files match .*train-"):
        list_files(str(tmp_path / "train-*"))
