"""One worker's life, from its context to its part of the result: the story, told by calling everything else.

Errors pass through; what they mean for the process is `__main__`'s business.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from trainer import storage
from trainer.actions.action import Action, chief_only
from trainer.actions.backup import Backup
from trainer.actions.checkpoint import Checkpoint
from trainer.actions.export import Export
from trainer.actions.metrics import Metrics
from trainer.actions.progress import Progress
from trainer.backup_store import BackupStore
from trainer.element_spec import find_element_spec
from trainer.gang import Gang
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
from trainer.job import Job, load_job
from trainer.learner import Learner
from trainer.loop import Loop
from trainer.preflight import check_writable
from trainer.pulse import Pulse
from trainer.rendezvous import introduce, meet_all_peers
from trainer.result import describe_result, is_complete
from trainer.run_context import RunContext
from trainer.run_files import RunFiles
from trainer.scaling import ScalingPlan, plan_scaling, split_batch
from trainer.sharding import ShardingPlan, plan_sharding
from trainer.stop_request import StopRequest
from trainer.strategy import make_strategy, strategy_name
from trainer.training_identity import identify_training
from trainer.training_state import TrainingState


@dataclass(frozen=True, kw_only=True, slots=True)
class Material:
    """What can be known before the workers meet: the job, the files and who reads which."""

    job: Job
    train_files: tuple[str, ...]
    eval_files: tuple[str, ...]
    sharding: ShardingPlan


def run_worker(context: RunContext, pulse: Pulse, stop: StopRequest, start_strategy: Callable[[], Any]) -> None:
    """Train as this worker of the gang. `start_strategy` runs `make_strategy` under the caller's protection."""
    files = RunFiles(root=context.run_directory)
    if is_complete(files):
        print(f"{files.root} is complete already: nothing to do", flush=True)
        return
    if context.is_chief:
        check_writable(files.root, context.credentials_file)
        storage.remove(files.result)
    with pulse.during("input"):
        material = gather(context)
    with pulse.during("rendezvous"):
        rendezvous_s = _meet(context)
        gang = Gang(start_strategy(), context.is_chief)
    stop.remember()
    Training(context, material, gang, files, pulse, stop).run(rendezvous_s)


def gather(context: RunContext) -> Material:
    """Find job and files. Raises InvalidRequest or InvalidData where they are not to be found."""
    training = context.training
    train_files = list_files(training.train_data)
    return Material(
        job=load_job(training.job, training.job_params),
        train_files=train_files,
        eval_files=list_files(training.eval_data) if training.eval_data else (),
        sharding=plan_sharding(training.sharding, len(train_files), context.workers, lambda: sizes_of(train_files)),
    )


def _meet(context: RunContext) -> float:
    own = introduce(context.run_directory, context.addresses, context.attempt, context.rank)
    return meet_all_peers(context.addresses, own, context.rendezvous_timeout_s)


class Training:
    """The part of a worker's life in which the gang exists: every worker takes the same way through it."""

    def __init__(
        self, context: RunContext, material: Material, gang: Gang, files: RunFiles, pulse: Pulse, stop: StopRequest
    ) -> None:
        self._context = context
        self._material = material
        self._gang = gang
        self._files = files
        self._pulse = pulse
        self._stop = stop

    def run(self, rendezvous_s: float) -> None:
        """Resume or begin, train, and publish; return once the chief has published everything."""
        element_spec = find_element_spec(self._material.job, self._material.train_files[0])
        plan = self._plan()
        learner = self._make_learner(plan, element_spec)
        store = self._store(plan)
        state, resumed_from_step = self._resume(store, learner)
        export = self._export(element_spec)
        train_s = self._make_loop(plan, learner, state, self._actions(store, export)).run()
        if self._gang.is_chief:
            result = describe_result(
                context=self._context,
                plan=plan,
                sharding=self._material.sharding,
                state=state,
                resumed_from_step=resumed_from_step,
                seconds={"rendezvous": rendezvous_s, "train": train_s, "export": export.seconds},
            )
            storage.write_json(self._files.result, result)
        self._leave_together()

    def _leave_together(self) -> None:
        """The others stay until the chief has published everything. Whoever leaves first breaks the meeting for the
        rest, so a broken one counts by what is in the run directory."""
        with self._pulse.during("save"):
            try:
                self._gang.meet()
            except tf.errors.OpError:
                if not is_complete(self._files):
                    raise

    def _all_saved(self) -> bool:
        """Wait for the chief, who saves. If the meeting breaks, the chief alone knows."""
        with self._pulse.during("save"):
            return self._gang.try_to_meet() or self._gang.is_chief

    def _plan(self) -> ScalingPlan:
        training, replicas = self._context.training, self._gang.strategy.num_replicas_in_sync
        split_batch(training, replicas)  # refused before all data is read to count it
        with self._pulse.during("input"):
            check_any_record(own_files(self._material.train_files, self._material.sharding, self._context.rank))
            samples = training.train_samples or self._count_samples()
        plan = plan_scaling(training, replicas, samples)
        self._say(plan.describe())
        self._say(self._material.sharding.describe())
        return plan

    def _count_samples(self) -> int:
        """Where there are fewer files than workers, each counts all: nobody waits for a single one then."""
        files, workers = self._material.train_files, self._context.workers
        if len(files) < workers:
            return count_records(files, self._pulse.beat)
        own_count = count_records(files[self._context.rank :: workers], self._pulse.beat)
        return int(self._gang.total(tf.constant(own_count, tf.int64)))

    def _make_learner(self, plan: ScalingPlan, element_spec: tuple[Any, Any]) -> Learner:
        # Not 0: tf.data cannot shuffle with a seed that is a tensor when TensorFlow's global seed is 0.
        keras.utils.set_random_seed(self._context.training.seed + 1)
        return Learner(self._gang, self._material.job, plan, element_spec)

    def _resume(self, store: BackupStore, learner: Learner) -> tuple[TrainingState, int | None]:
        """The chief chooses the backup, all restore the same one."""
        with self._pulse.during("save"), tempfile.TemporaryDirectory() as directory:
            fetched = Path(directory)
            newest = store.fetch_newest(fetched) if self._gang.is_chief else 0
            step = int(self._gang.from_chief(tf.constant(newest, tf.int64)))
            if step < 0:
                return TrainingState(), None
            if not self._gang.is_chief:
                store.fetch(step, fetched)
            state = store.restore(step, fetched, learner)
        self._say(f"resumed from the backup of step {step}")
        return state, step

    def _store(self, plan: ScalingPlan) -> BackupStore:
        context, material = self._context, self._material
        identity = identify_training(context.training, plan, material.sharding, material.train_files)
        return BackupStore(self._files, context.workers, context.attempt, identity)

    def _export(self, element_spec: tuple[Any, Any]) -> Export:
        context, (features, _) = self._context, element_spec
        return Export(self._files, self._material.job, features, context.workers, context.attempt, self._pulse)

    def _actions(self, store: BackupStore, export: Export) -> list[Action]:
        context, files = self._context, self._files
        actions = [
            Progress(files, context.attempt),
            Metrics(files),
            Checkpoint(files, context.workers, context.attempt, self._pulse),
            Backup(store, context.training.backup_every_steps, self._pulse),
            export,
        ]
        return [chief_only(action, self._gang.is_chief) for action in actions]

    def _make_loop(self, plan: ScalingPlan, learner: Learner, state: TrainingState, actions: list[Action]) -> Loop:
        return Loop(
            learner=learner,
            plan=plan,
            state=state,
            train_batches=self._train_batches(plan, state.step),
            eval_batches=self._eval_batches(plan),
            actions=actions,
            pulse=self._pulse,
            backup_every_steps=self._context.training.backup_every_steps,
            wants_stop=self._stop.received,
            all_saved=self._all_saved,
        )

    def _train_batches(self, plan: ScalingPlan, first_step: int) -> Any:
        share = InputShare(
            files=self._material.train_files,
            sharding=self._material.sharding,
            rank=self._context.rank,
            local_replicas=self._gang.local_replicas,
            seed=self._context.training.seed,
        )
        parse = self._material.job.parse
        return iter(
            self._gang.strategy.distribute_datasets_from_function(
                lambda _: train_batches(share, plan, parse, first_step)
            )
        )

    def _eval_batches(self, plan: ScalingPlan) -> tf.data.Dataset | None:
        if not self._material.eval_files:
            return None
        context, batch_size = self._context, plan.per_replica_batch_size
        return eval_batches(
            self._material.eval_files, context.rank, context.workers, batch_size, self._material.job.parse
        )

    def _say(self, text: str) -> None:
        if self._gang.is_chief:
            print(text, flush=True)


def start_strategy(context: RunContext) -> Any:
    """Make the strategy and say how long it took."""
    started_s = time.monotonic()
    strategy = make_strategy(context.workers)
    if context.is_chief:
        print(f"{strategy_name(context.workers)} ready after {time.monotonic() - started_s:.1f} s", flush=True)
    return strategy
