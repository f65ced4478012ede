"""Where things lie in a run directory. The names are part of the contract, version 1."""

from __future__ import annotations

from dataclasses import dataclass

from trainer.storage import join


@dataclass(frozen=True, kw_only=True, slots=True)
class RunFiles:
    """Paths below `root`; those ending in `_path` are relative to it, as the result reports them."""

    root: str

    @property
    def backups(self) -> str:
        return join(self.root, "backup")

    @property
    def checkpoints(self) -> str:
        return join(self.root, "checkpoints")

    @property
    def model(self) -> str:
        return join(self.root, self.model_path)

    @property
    def progress(self) -> str:
        return join(self.root, "progress.json")

    @property
    def metrics(self) -> str:
        return join(self.root, "metrics.jsonl")

    @property
    def result(self) -> str:
        return join(self.root, "result.json")

    @property
    def model_path(self) -> str:
        return "model"

    @staticmethod
    def checkpoint_path(step: int) -> str:
        return f"checkpoints/step-{step:08d}"

    @staticmethod
    def generation(step: int) -> str:
        """Name of a backup; names sort as steps do."""
        return f"{step:08d}"
