"""An attempt of a gang that ended without success: what its watcher tells the task, and what is kept of it.

It travels from the trigger to the task through Airflow's database, and stays in the run directory.
"""

from __future__ import annotations

from dataclasses import dataclass

from lockstep.errors import GangEnded, LockstepError
from lockstep.failure_class import FailureClass


@dataclass(frozen=True, kw_only=True, slots=True)
class FailedAttempt:
    """`step` is the last that was heard of before the end; None where nothing was."""

    error: str
    retryable: bool
    kind: FailureClass | None = None
    step: int | None = None

    @classmethod
    def of(cls, error: LockstepError) -> FailedAttempt:
        kind, step = (error.kind, error.step) if isinstance(error, GangEnded) else (None, None)
        return cls(error=error.told, retryable=error.retryable, kind=kind, step=step)
