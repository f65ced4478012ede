"""Model, optimizer and the compiled training step: everything that computes, and nothing that decides or writes.

Gradients are those of the mean loss over the global batch, whatever the number of replicas. Evaluation counts each
held-out sample exactly once, with the chief's state: what is measured is what gets exported.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf

from trainer.errors import InvalidData
from trainer.gang import Gang
from trainer.job import Job
from trainer.learning_rate import WarmUp
from trainer.scaling import ScalingPlan
from trainer.termination import Phase


@dataclass(frozen=True, kw_only=True, slots=True)
class StepsOutcome:
    """What some steps came to, the same on all workers: sums over their samples, how many workers want to stop, and
    the chief's seconds per step of the call before (0 when not known)."""

    sums: dict[str, float]
    stop_wishes: int
    seconds_per_step: float


class Learner:
    """Holds the model and trains it. `element_spec` is that of the parsed records: (features, label), no batch."""

    def __init__(self, gang: Gang, job: Job, plan: ScalingPlan, element_spec: tuple[Any, Any]) -> None:
        self._gang = gang
        self._job = job
        self._plan = plan
        with gang.strategy.scope():
            self.model = job.model()
            self.names = self._try_out(element_spec)
            self.optimizer = job.optimizer(WarmUp(plan.learning_rate, plan.warmup_steps))
            self.optimizer.build(self.model.trainable_variables)
        self._compiled_steps = tf.function(self._steps)
        self._compiled_evaluation = tf.function(self._evaluation, reduce_retracing=True)
        self._seconds_per_step = 0.0
        with tf.device("CPU:0"):
            self._drawn = tf.Variable(0, dtype=tf.int64, trainable=False)
            self._done = tf.Variable(0, dtype=tf.int64, trainable=False)
            self._evaluated = tf.Variable(0, dtype=tf.int64, trainable=False)

    def start_counting(self, step: int) -> None:
        """Let `look` count from `step`."""
        self._drawn.assign(step)
        self._done.assign(step)

    def look(self) -> tuple[Phase, int, int]:
        """From any thread, during a call: whether the next step waits for input or is being computed, the steps done,
        and the batches evaluated so far."""
        drawn, done = int(self._drawn.numpy()), int(self._done.numpy())
        return ("step" if drawn > done else "input"), done, int(self._evaluated.numpy())

    def run_steps(self, batches: Any, count: int, wants_stop: bool) -> StepsOutcome:
        """Train `count` steps in one call of TensorFlow. A collective: all workers pass the same `count`."""
        started_s = time.monotonic()
        own_pace = self._seconds_per_step if self._gang.is_chief else 0.0
        signals = tf.constant([float(wants_stop), own_pace], tf.float64)
        numbers = self._compiled_steps(batches, tf.constant(count), signals).numpy().tolist()
        self._seconds_per_step = (time.monotonic() - started_s) / count
        *sums, stop_wishes, seconds_per_step = numbers
        return StepsOutcome(
            sums=dict(zip(self.names, sums, strict=True)),
            stop_wishes=round(stop_wishes),
            seconds_per_step=seconds_per_step,
        )

    def evaluate(self, own_batches: tf.data.Dataset) -> dict[str, float]:
        """Means over all workers' held-out samples, and their number as `samples`. A collective.

        Raises InvalidData, on all workers, when there is no sample.
        """
        self._take_chiefs_statistics()
        *sums, samples = self._gang.total(self._compiled_evaluation(own_batches)).tolist()
        if samples == 0:
            raise InvalidData("there are no held-out samples: the files of eval_data hold no records")
        means = {name: value / samples for name, value in zip(self.names, sums, strict=True)}
        return {**means, "samples": int(samples)}

    def _try_out(self, element_spec: tuple[Any, Any]) -> tuple[str, ...]:
        """Build the model on a batch of zeros, and learn which values the job reports for each sample."""
        features, labels = tf.nest.map_structure(lambda spec: tf.zeros([2, *spec.shape], spec.dtype), element_spec)
        values = self._per_sample(labels, self.model(features, training=False))
        for name, value in values.items():
            if value.shape != (2,):
                raise ValueError(f"the job's {name} must have one value per sample: shape [batch], got {value.shape}")
        return tuple(values)

    def _per_sample(self, labels: Any, predictions: Any) -> dict[str, Any]:
        metrics: Mapping[str, Any] = self._job.metrics(labels, predictions)
        return {"loss": self._job.loss(labels, predictions), **{name: metrics[name] for name in sorted(metrics)}}

    def _steps(self, batches: Any, count: Any, signals: Any) -> Any:
        sums = tf.zeros([len(self.names)], tf.float64)
        for _ in tf.range(count):
            batch = next(batches)
            with tf.control_dependencies(tf.nest.flatten(batch, expand_composites=True)):
                self._drawn.assign_add(1)
            results = self._gang.local_results(self._gang.strategy.run(self._train_on, args=(batch,)))
            sums += tf.add_n(results)
            with tf.control_dependencies(results):
                self._done.assign_add(1)
        return self._gang.sum(tf.concat([sums, signals], axis=0))

    def _train_on(self, batch: tuple[Any, Any]) -> Any:
        features, labels = batch
        with tf.GradientTape() as tape:
            values = self._per_sample(labels, self.model(features, training=True))
            objective = tf.reduce_sum(values["loss"]) / self._plan.global_batch_size
            if self.model.losses:
                objective += tf.add_n(self.model.losses) / self._plan.replicas
        variables = self.model.trainable_variables
        self.optimizer.apply_gradients(zip(tape.gradient(objective, variables), variables, strict=True))
        with tf.control_dependencies([tf.identity(_smallest(variables).value)]):  # the step is done once it is applied
            return tf.identity(_summed(values))

    def _evaluation(self, batches: tf.data.Dataset) -> Any:
        sums = tf.zeros([len(self.names) + 1], tf.float64)
        for features, labels in batches:
            values = self._per_sample(labels, self.model(features, training=False))
            samples = tf.cast(tf.shape(values["loss"])[:1], tf.float64)
            sums += tf.concat([_summed(values), samples], axis=0)
            with tf.control_dependencies([sums]):
                self._evaluated.assign_add(1)
        return sums

    def _take_chiefs_statistics(self) -> None:
        """Moving averages (batch normalization) differ between workers; from here on all have the chief's."""
        for variable in self.model.non_trainable_weights:
            if keras.backend.is_float_dtype(variable.dtype):
                variable.assign(self._gang.from_chief(variable.value))


def _smallest(variables: Sequence[Any]) -> Any:
    return min(variables, key=lambda variable: math.prod(variable.shape))


def _summed(values: Mapping[str, Any]) -> Any:
    return tf.stack([tf.reduce_sum(tf.cast(value, tf.float64)) for value in values.values()])
