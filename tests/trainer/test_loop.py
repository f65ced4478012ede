"""The loop ends, and stops, at a step that all workers agree on, and nobody leaves before the state is saved."""

from __future__ import annotations

from typing import Any

import pytest
import tensorflow as tf

from trainer.actions.action import Action, Moment
from trainer.errors import Stopped
from trainer.gang import Gang
from trainer.learner import StepsOutcome
from trainer.loop import Loop
from trainer.pulse import Pulse
from trainer.scaling import ScalingPlan
from trainer.training_state import TrainingState

PLAN = ScalingPlan(
    replicas=1,
    per_replica_batch_size=8,
    global_batch_size=8,
    learning_rate=0.1,
    warmup_steps=0,
    steps_per_epoch=10,
    epochs=2,
    train_samples=80,
)


class IdleLearner:
    """Trains nothing, at once; in every call one worker wishes to stop."""

    def start_counting(self, step: int) -> None:
        pass

    def look(self) -> tuple[str, int, int]:
        return "step", 0, 0

    def run_steps(self, batches: Any, count: int, wants_stop: bool) -> StepsOutcome:
        return StepsOutcome(sums={"loss": 8.0 * count}, stop_wishes=1, seconds_per_step=0.1)


class Record(Action):
    """Notes what the loop calls."""

    def __init__(self, events: list[str]) -> None:
        self._events = events

    def on_stop(self, moment: Moment) -> None:
        self._events.append("stop")

    def on_end(self, moment: Moment) -> None:
        self._events.append("end")


def loop(events: list[str], state: TrainingState, saved: bool = True) -> Loop:
    def all_saved() -> bool:
        events.append("meet")
        return saved

    return Loop(
        learner=IdleLearner(),
        plan=PLAN,
        state=state,
        train_batches=iter(()),
        eval_batches=None,
        actions=[Record(events)],
        pulse=Pulse(),
        backup_every_steps=100,
        wants_stop=lambda: False,
        all_saved=all_saved,
    )


@pytest.mark.parametrize(
    ("saved", "said"),
    [
        pytest.param(True, "the state is saved, the next attempt goes on from there", id="all have met: it is saved"),
        pytest.param(False, "whether the state is saved is not known here", id="a peer has gone: nobody claims it"),
    ],
)
def test_all_wait_for_the_chief_to_save_before_they_leave(saved: bool, said: str) -> None:
    """The first that left had the rest ended, the chief amid its upload."""
    events: list[str] = []
    with pytest.raises(Stopped, match=f"stopped after step 1 of 20, because 1 workers were told to; .*{said}"):
        loop(events, TrainingState(), saved).run()
    assert events == ["stop", "meet"]


@pytest.mark.parametrize("step", [20, 25])
def test_whoever_is_at_the_last_step_or_beyond_has_nothing_left_to_do(step: int) -> None:
    events: list[str] = []
    loop(events, TrainingState(step=step, history=[{"epoch": 1}, {"epoch": 2}])).run()
    assert events == ["end"]


def test_a_broken_meeting_is_told_and_not_raised() -> None:
    class Lonely(Gang):
        def meet(self) -> None:
            raise tf.errors.UnavailableError(None, None, "Socket closed")

    strategy = tf.distribute.MirroredStrategy(["CPU:0"])
    assert Gang(strategy, is_chief=True).try_to_meet()
    assert not Lonely(strategy, is_chief=False).try_to_meet()
