"""Files -> a seeded, sharded, resumable stream of batches.

The order of an epoch is defined without workers: the files take turns, record by record, each file shuffled by seed
and epoch; a global batch is the next `global_batch_size` records. FILE and DATA are two ways to hand the same records
to the same workers, so neither the policy nor the number of workers changes what a step trains on, as long as the files
fit the turns (at most `MAX_OPEN_FILES` for each worker) and the global batch is a multiple of their number.
Any step can be the first one: earlier batches of its epoch are skipped, earlier epochs are not read at all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

import tensorflow as tf

from trainer import storage
from trainer.errors import InvalidData
from trainer.scaling import ScalingPlan
from trainer.sharding import ShardingPlan

MAX_OPEN_FILES: Final = 16
SHUFFLED_RECORDS: Final = 16_384
_MIN_SHUFFLED_PER_FILE: Final = 16
_LOOKS_AT_ONCE: Final = 16
_RECORDS_PER_BEAT: Final = 1000
_SEED_MODULUS: Final = 2**31 - 1

Parse = Callable[[Any], tuple[Any, Any]]


@dataclass(frozen=True, kw_only=True, slots=True)
class InputShare:
    """Which records are this worker's. `files` are all files of the data set, `local_replicas` its own devices."""

    files: tuple[str, ...]
    sharding: ShardingPlan
    rank: int
    local_replicas: int
    seed: int


def list_files(pattern: str) -> tuple[str, ...]:
    """All files that match, sorted. Raises InvalidData when there is none."""
    try:
        files = tuple(sorted(tf.io.gfile.glob(pattern)))
    except tf.errors.NotFoundError as error:
        raise InvalidData(f"no files at {pattern}: {error.message}") from error
    if not files:
        raise InvalidData(f"no files match {pattern}: was the data set written, and there?")
    return files


def sizes_of(files: Sequence[str]) -> list[int]:
    """Bytes of each file, some at a time, because Cloud Storage is asked for each. One that has vanished has none:
    reading it will tell."""
    with ThreadPoolExecutor(_LOOKS_AT_ONCE, thread_name_prefix="sizes") as pool:
        return [size_bytes or 0 for size_bytes in pool.map(storage.size_bytes, files)]


def own_files(files: Sequence[str], sharding: ShardingPlan, rank: int) -> Sequence[str]:
    """The files that a worker reads."""
    return files[rank :: sharding.workers] if sharding.policy == "FILE" else files


def check_any_record(files: Sequence[str]) -> None:
    """Raises InvalidData when none of the files holds a record: an endless stream of nothing would never yield."""
    if not any(True for _ in tf.data.TFRecordDataset(list(files)).take(1)):
        raise InvalidData(f"the training files hold no records: {len(files)} were looked at, the first is {files[0]}")


def count_records(files: Sequence[str], beat: Callable[[], None]) -> int:
    """Read the files once and count; `beat` is called as that goes on. Raises tf.errors.DataLossError on a damaged
    one."""
    if not files:
        return 0
    records = tf.data.TFRecordDataset(list(files), num_parallel_reads=min(len(files), MAX_OPEN_FILES))
    count = 0
    for some in records.map(lambda _: True).batch(_RECORDS_PER_BEAT):
        count += int(some.shape[0])
        beat()
    return count


def train_batches(share: InputShare, plan: ScalingPlan, parse: Parse, first_step: int) -> tf.data.Dataset:
    """This worker's batches from `first_step` on, without end: one per local replica in turn, of the plan's size."""
    samples_per_step = plan.per_replica_batch_size * share.local_replicas
    first_epoch, steps_done = divmod(first_step, plan.steps_per_epoch)

    def epoch_records(epoch: Any) -> tf.data.Dataset:
        skipped = tf.where(tf.equal(epoch, first_epoch), steps_done * samples_per_step, 0)
        skipped = tf.cast(skipped, tf.int64)
        return _own_records(share, epoch).repeat().skip(skipped).take(plan.steps_per_epoch * samples_per_step - skipped)

    return (
        tf.data.Dataset.counter(start=first_epoch)
        .flat_map(epoch_records)
        .map(parse, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
        .batch(plan.per_replica_batch_size, drop_remainder=True)
        # A stream known to be endless spares tf.distribute a collective per step that asks whether all still have data.
        .apply(tf.data.experimental.assert_cardinality(tf.data.INFINITE_CARDINALITY))
        .prefetch(tf.data.AUTOTUNE)
    )


def eval_batches(files: Sequence[str], rank: int, workers: int, batch_size: int, parse: Parse) -> tf.data.Dataset:
    """This worker's share of the held-out records, each once over all workers; the last batch may be smaller."""
    own = files[rank::workers] if len(files) >= workers else files
    records = tf.data.TFRecordDataset(list(own))
    if len(files) < workers:
        records = records.shard(workers, rank)
    return records.map(parse, num_parallel_calls=tf.data.AUTOTUNE).batch(batch_size).prefetch(tf.data.AUTOTUNE)


def _own_records(share: InputShare, epoch: Any) -> tf.data.Dataset:
    numbered = list(enumerate(share.files))
    if share.sharding.policy == "FILE":
        return _in_turns(numbered[share.rank :: share.sharding.workers], share, epoch)
    return _in_turns(numbered, share, epoch).shard(share.sharding.workers, share.rank)


def _in_turns(numbered: Sequence[tuple[int, str]], share: InputShare, epoch: Any) -> tf.data.Dataset:
    shuffled_per_file = max(SHUFFLED_RECORDS // len(share.files), _MIN_SHUFFLED_PER_FILE)

    def shuffled_file(number: Any, path: Any) -> tf.data.Dataset:
        seed = _mixed_seed(share.seed, epoch, number)
        return tf.data.TFRecordDataset(path).shuffle(shuffled_per_file, seed=seed, reshuffle_each_iteration=False)

    numbers = tf.constant([number for number, _ in numbered], tf.int64)
    files = tf.data.Dataset.from_tensor_slices((numbers, [path for _, path in numbered]))
    if len(numbered) > MAX_OPEN_FILES:
        seed = _mixed_seed(share.seed, epoch, tf.constant(-1, tf.int64))
        files = files.shuffle(len(numbered), seed=seed, reshuffle_each_iteration=False)
    return files.interleave(
        shuffled_file,
        cycle_length=min(len(numbered), MAX_OPEN_FILES),
        block_length=1,
        num_parallel_calls=tf.data.AUTOTUNE,
        deterministic=True,
    )


def _mixed_seed(seed: int, epoch: Any, file_number: Any) -> Any:
    mixed = seed * 1_000_003 + tf.cast(epoch, tf.int64) * 7_919_003 + tf.cast(file_number, tf.int64) * 104_729 + 1
    return tf.math.floormod(mixed, _SEED_MODULUS)
