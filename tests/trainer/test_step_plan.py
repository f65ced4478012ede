"""One call trains many steps where steps are short, and never so many that a stop would wait."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer.step_plan import CALL_SECONDS, MAX_STEPS_PER_CALL, steps_of_next_call


@pytest.mark.parametrize(
    ("step", "pace_s", "expected"),
    [
        pytest.param(0, 0.0, 1, id="pace not known: one step"),
        pytest.param(0, 0.05, 10, id="short steps: half a second of them"),
        pytest.param(0, 10.0, 1, id="long steps: one"),
        pytest.param(0, 0.0001, MAX_STEPS_PER_CALL, id="tiny steps: a bounded number"),
        pytest.param(95, 0.001, 5, id="a backup is near: up to it"),
        pytest.param(100, 0.001, MAX_STEPS_PER_CALL, id="on a boundary: on to the next"),
    ],
)
def test_steps_per_call(step: int, pace_s: float, expected: int) -> None:
    assert steps_of_next_call(step, pace_s, (220, 100)) == expected


@given(
    step=st.integers(0, 10_000),
    pace_s=st.floats(0, 100),
    epoch=st.integers(1, 500),
    cadence=st.integers(1, 500),
)
def test_no_call_crosses_a_boundary_or_lasts(step: int, pace_s: float, epoch: int, cadence: int) -> None:
    count = steps_of_next_call(step, pace_s, (epoch, cadence))
    assert 1 <= count <= MAX_STEPS_PER_CALL
    assert all(step // length == (step + count - 1) // length for length in (epoch, cadence))
    assert count == 1 or count * pace_s <= CALL_SECONDS * 1.000001
