"""How far training has come, apart from the variables: part of every backup, so that a resumed run continues its sums
and its history as if it had never stopped."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(kw_only=True, slots=True)
class TrainingState:
    """`epoch_sums` are over the samples of the running epoch; `history` has one record per finished epoch."""

    step: int = 0
    epoch_sums: dict[str, float] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)

    def advance(self, steps: int, sums: dict[str, float]) -> None:
        self.step += steps
        self.epoch_sums = {name: self.epoch_sums.get(name, 0.0) + value for name, value in sums.items()}

    def finish_epoch(self, record: dict[str, Any]) -> None:
        self.history.append(record)
        self.epoch_sums = {}

    def to_json(self) -> dict[str, Any]:
        return {"step": self.step, "epoch_sums": self.epoch_sums, "history": self.history}
