"""What a finished gang says of itself: the result.json of a run directory, parsed at the door.

Nothing here is believed yet: checkpoint.py compares it with what storage holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lockstep.errors import CheckpointRejected

SCHEMA = 1
FILE_NAME = "result.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingResult:
    """The claims that validation and registration rest on; `checkpoint` and `model` are relative to the run directory.

    `metrics` holds what the trainer wrote, numbers or not; an absent measurement (null) is left out.
    """

    step: int
    epochs: int
    workers: int
    steps_per_epoch: int | None
    metrics: Mapping[str, Any]
    checkpoint: str
    model: str

    @classmethod
    def parse(cls, document: Mapping[str, Any], *, source: str) -> TrainingResult:
        """Read result.json; `source` says in the error where it lies.

        Raises:
            CheckpointRejected: another schema, or a claim is missing or of the wrong type.
        """
        if document.get("schema") != SCHEMA:
            raise CheckpointRejected(
                f"{source} has schema {document.get('schema')!r}, but {SCHEMA} is understood: "
                "use a trainer image of this version's contract"
            )
        try:
            return cls(
                step=int(document["step"]),
                epochs=int(document["epochs"]),
                workers=int(document["workers"]),
                steps_per_epoch=document.get("scaling", {}).get("steps_per_epoch"),
                metrics={key: value for key, value in document["metrics"].items() if value is not None},
                checkpoint=_relative(document["checkpoint"]),
                model=_relative(document["model"]),
            )
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            reason = f"{type(error).__name__}: {error}"
            raise CheckpointRejected(f"{source} is not complete ({reason}): train in a new run directory") from error


def _relative(path: object) -> str:
    if not isinstance(path, str) or any(part in ("", ".", "..") for part in path.split("/")):
        raise ValueError(f"{path!r} is no path inside the run directory")
    return path
