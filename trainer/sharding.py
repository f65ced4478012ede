"""Which worker reads what. FILE: each worker reads files of its own. DATA: each reads all files, and keeps its share.

The rule is the Airflow side's own; it is applied again here because the files may have changed in between.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from trainer.errors import InvalidData
from trainer.training_request import Sharding


@dataclass(frozen=True, kw_only=True, slots=True)
class ShardingPlan:
    """The policy in force, and why."""

    policy: Literal["FILE", "DATA"]
    files: int
    workers: int
    reason: str

    def describe(self) -> str:
        return f"sharding: {self.policy}, {self.files} files on {self.workers} workers, because {self.reason}"

    def report(self) -> dict[str, Any]:
        return {"policy": self.policy, "files": self.files, "workers": self.workers, "reason": self.reason}


def plan_sharding(asked: Sharding, files: int, workers: int) -> ShardingPlan:
    """Choose the policy. Pure. Raises InvalidData when FILE is demanded with fewer files than workers."""
    remainder = files % workers
    if asked == "file" and files < workers:
        raise InvalidData(
            f"sharding 'file' needs a file for each of the {workers} workers, and there are {files}: "
            "write more files, or ask for 'auto' or 'data'"
        )
    if asked == "file":
        uneven = f", and {remainder} workers read one file more than the others" if remainder else ""
        return ShardingPlan(policy="FILE", files=files, workers=workers, reason=f"it was asked for{uneven}")
    if asked == "data":
        return ShardingPlan(policy="DATA", files=files, workers=workers, reason="it was asked for")
    if files >= workers and remainder == 0:
        reason = f"every worker gets {files // workers} of them"
        return ShardingPlan(policy="FILE", files=files, workers=workers, reason=reason)
    reason = (
        "there are fewer files than workers"
        if files < workers
        else f"{files} files are no multiple of {workers} workers"
    )
    return ShardingPlan(policy="DATA", files=files, workers=workers, reason=reason)
