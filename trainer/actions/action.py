"""What the loop calls: an action does something at certain moments of training, and the loop knows none of them."""

from __future__ import annotations

import math
from dataclasses import dataclass

from trainer.learner import Learner
from trainer.training_state import TrainingState


@dataclass(frozen=True, kw_only=True, slots=True)
class Moment:
    """Training at this moment. `loss` is the mean over the latest steps, None before the first; see `state` for the
    rest. `steps_per_s` is 0 while not known."""

    state: TrainingState
    learner: Learner
    steps: int
    epochs: int
    steps_per_epoch: int
    loss: float | None = None
    steps_per_s: float = 0.0

    @property
    def step(self) -> int:
        return self.state.step

    @property
    def epoch(self) -> int:
        """The epoch of the latest step, from 1."""
        return max(math.ceil(self.state.step / self.steps_per_epoch), 1)

    @property
    def eta_s(self) -> float | None:
        return (self.steps - self.step) / self.steps_per_s if self.steps_per_s else None


class Action:
    """Override what matters. An action takes part in no collective: not every worker runs every action."""

    def on_steps(self, moment: Moment) -> None:
        """After each call of some steps."""

    def on_epoch(self, moment: Moment) -> None:
        """After an epoch and its evaluation; the record is the last of the state's history."""

    def on_stop(self, moment: Moment) -> None:
        """All workers have agreed to stop here."""

    def on_end(self, moment: Moment) -> None:
        """All steps are done."""


def chief_only(action: Action, is_chief: bool) -> Action:
    """The action on the chief, nothing on the other workers."""
    return action if is_chief else Action()
