"""How many steps one call of TensorFlow trains: few enough to notice a stop soon, as many as fit otherwise.

Pure, and fed only with what all workers agree on, so that all of them come to the same number.
"""

from __future__ import annotations

from typing import Final

CALL_SECONDS: Final = 0.5
MAX_STEPS_PER_CALL: Final = 50


def steps_of_next_call(step: int, seconds_per_step: float, boundaries: tuple[int, ...]) -> int:
    """Steps from `step` on: about CALL_SECONDS of them, one while the pace is not known (0), never across a multiple of
    any of `boundaries` (the lengths of an epoch and of the backup's cadence)."""
    to_boundary = min(length - step % length for length in boundaries)
    if seconds_per_step == 0:
        return 1
    wanted = int(min(CALL_SECONDS / seconds_per_step, MAX_STEPS_PER_CALL))
    return max(1, min(wanted, to_boundary))
