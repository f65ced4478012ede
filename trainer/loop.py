"""The training loop: steps, epochs, evaluation, and the moments at which actions act. It knows none of the actions.

All decisions here rest on numbers that are the same on all workers, so that every worker takes part in the same
collectives in the same order.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import tensorflow as tf

from trainer.actions.action import Action, Moment
from trainer.errors import NonFinite, Stopped
from trainer.learner import Learner, StepsOutcome
from trainer.pulse import Pulse
from trainer.scaling import ScalingPlan
from trainer.step_plan import steps_of_next_call
from trainer.training_state import TrainingState

RECENT_CALLS = 20


class Loop:
    """Trains from `state` to the plan's last step. `wants_stop` is asked before each call whether this worker was told
    to stop; `all_saved` is called once all have stopped: it waits until the state is saved, and says False where that
    is not known. `eval_batches` is this worker's share of the held-out data, or None."""

    def __init__(
        self,
        *,
        learner: Learner,
        plan: ScalingPlan,
        state: TrainingState,
        train_batches: Iterator[Any],
        eval_batches: tf.data.Dataset | None,
        actions: Sequence[Action],
        pulse: Pulse,
        backup_every_steps: int,
        wants_stop: Callable[[], bool],
        all_saved: Callable[[], bool],
    ) -> None:
        self._learner = learner
        self._plan = plan
        self._state = state
        self._train_batches = train_batches
        self._eval_batches = eval_batches
        self._actions = actions
        self._pulse = pulse
        self._boundaries = (plan.steps_per_epoch, backup_every_steps)
        self._wants_stop = wants_stop
        self._all_saved = all_saved
        self._seconds_per_step = 0.0
        self._recent: deque[tuple[int, float]] = deque(maxlen=RECENT_CALLS)
        self._loss: float | None = None

    def run(self) -> float:
        """Train; return the seconds it took. Raises Stopped once all workers stopped at the same step and the chief has
        saved the state, NonFinite when the loss is not a number."""
        started_s = time.monotonic()
        self._learner.start_counting(self._state.step)
        self._pulse.watch(self._learner.look)
        while True:
            if self._epoch_is_due():
                self._finish_epoch()
            if self._state.step >= self._plan.steps:
                break
            outcome = self._train_some()
            self._each(lambda action, moment: action.on_steps(moment))
            if outcome.stop_wishes:
                self._stop(outcome.stop_wishes)
        seconds = time.monotonic() - started_s
        self._each(lambda action, moment: action.on_end(moment))
        return seconds

    def _train_some(self) -> StepsOutcome:
        count = steps_of_next_call(self._state.step, self._seconds_per_step, self._boundaries)
        with self._pulse.during("step"):
            outcome = self._learner.run_steps(self._train_batches, count, self._wants_stop())
        self._state.advance(count, outcome.sums)
        self._seconds_per_step = outcome.seconds_per_step
        self._recent.append((count, count * outcome.seconds_per_step))
        self._loss = outcome.sums["loss"] / (count * self._plan.global_batch_size)
        if not math.isfinite(self._loss):
            raise NonFinite(
                f"the loss is {self._loss} within the {count} steps up to {self._state.step}: lower the learning rate, "
                "or look for a division by 0 or a logarithm of 0 in the job"
            )
        self._pulse.beat(self._state.step)
        return outcome

    def _epoch_is_due(self) -> bool:
        return len(self._state.history) < self._state.step // self._plan.steps_per_epoch

    def _finish_epoch(self) -> None:
        samples = self._plan.steps_per_epoch * self._plan.global_batch_size
        record: dict[str, Any] = {"epoch": len(self._state.history) + 1, "step": self._state.step}
        record |= {name: value / samples for name, value in self._state.epoch_sums.items()}
        if self._eval_batches is not None:
            with self._pulse.during("step"):
                evaluated = self._learner.evaluate(self._eval_batches)
            record |= {f"eval_{name}": value for name, value in evaluated.items()}
        if not_finite := [name for name, value in record.items() if not math.isfinite(value)]:
            raise NonFinite(f"{not_finite} of epoch {record['epoch']} are not finite: {record}")
        self._state.finish_epoch(record)
        self._each(lambda action, moment: action.on_epoch(moment))

    def _stop(self, wishes: int) -> None:
        """Nobody leaves before the state is saved: whoever supervises ends the others soon after the first has left."""
        self._each(lambda action, moment: action.on_stop(moment))
        saved = "the state is saved, the next attempt goes on from there"
        raise Stopped(
            f"stopped after step {self._state.step} of {self._plan.steps}, because {wishes} workers were told to; "
            + (saved if self._all_saved() else "a peer has gone, so whether the state is saved is not known here")
        )

    def _each(self, act: Callable[[Action, Moment], None]) -> None:
        for action in self._actions:
            act(action, self._moment())

    def _moment(self) -> Moment:
        return Moment(
            state=self._state,
            learner=self._learner,
            steps=self._plan.steps,
            epochs=self._plan.epochs,
            steps_per_epoch=self._plan.steps_per_epoch,
            loss=self._loss,
            steps_per_s=self._steps_per_s(),
        )

    def _steps_per_s(self) -> float:
        """Over the last calls of TensorFlow: one alone says little of the time that is left."""
        seconds = sum(seconds for _, seconds in self._recent)
        return sum(count for count, _ in self._recent) / seconds if seconds else 0.0
