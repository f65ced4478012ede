"""What a failed attempt of a gang came to: a line in the task's log, `attempts/<number>.json` in the run directory.

Success leaves no record, so that a complete run that is run again stays as it is, byte for byte.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lockstep.parsing import to_json


@dataclass(frozen=True, kw_only=True, slots=True)
class AttemptRecord:
    """`launched_at` is seconds since the epoch.

    `step` is the last that was heard of, `backup_step` where the next attempt goes on; None where there is none.
    """

    attempt: int
    workers: int
    launched_at: float
    error: str
    kind: str | None
    step: int | None = None
    backup_step: int | None = None

    @property
    def lost_steps(self) -> int | None:
        """Steps that the next attempt trains again."""
        return None if self.step is None else max(0, self.step - (self.backup_step or 0))

    @property
    def cost(self) -> str:
        """What it costs that this attempt has failed, in one clause."""
        start = "from the beginning" if self.backup_step is None else f"from step {self.backup_step}"
        lost = "" if self.lost_steps is None else f", {self.lost_steps} steps are lost"
        return f"it goes on {start}{lost}"

    def document(self) -> dict[str, Any]:
        return {"schema": 1, "lost_steps": self.lost_steps, **to_json(self)}
