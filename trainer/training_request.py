"""What is to be trained: the JSON of LOCKSTEP_TRAINING, parsed and checked once, then trusted.

It knows nothing of workers, files or TensorFlow: what follows from those is planned in `scaling` and `sharding`.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

from trainer.errors import InvalidRequest

Sharding = Literal["auto", "file", "data"]

_INTEGER: Final = (int,)
_NUMBER: Final = (int, float)
_NONE: Final = type(None)
_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "job": (str,),
    "job_params": (dict,),
    "train_data": (str,),
    "eval_data": (str, _NONE),
    "train_samples": (*_INTEGER, _NONE),
    "sharding": (str,),
    "epochs": _INTEGER,
    "per_replica_batch_size": (*_INTEGER, _NONE),
    "global_batch_size": (*_INTEGER, _NONE),
    "learning_rate": _NUMBER,
    "learning_rate_batch_size": (*_INTEGER, _NONE),
    "warmup_epochs": _NUMBER,
    "seed": _INTEGER,
    "backup_every_steps": _INTEGER,
}
_POSITIVE: Final = (
    "train_samples",
    "epochs",
    "per_replica_batch_size",
    "global_batch_size",
    "learning_rate",
    "learning_rate_batch_size",
    "backup_every_steps",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingRequest:
    """One training as asked for. Raises InvalidRequest where it makes no sense."""

    job: str
    train_data: str
    job_params: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    eval_data: str | None = None
    train_samples: int | None = None
    sharding: Sharding = "auto"
    epochs: int = 1
    per_replica_batch_size: int | None = None
    global_batch_size: int | None = None
    learning_rate: float = 0.001
    learning_rate_batch_size: int | None = None
    warmup_epochs: float = 1.0
    seed: int = 0
    backup_every_steps: int = 100

    def __post_init__(self) -> None:
        for key in dataclasses.fields(self):
            _check_type(key.name, getattr(self, key.name))
        for name in _POSITIVE:
            _check_positive(name, getattr(self, name))
        _check_choices(self)

    @property
    def digest(self) -> str:
        """Two requests with the same digest train the same model; a backup fits only its own."""
        canonical = json.dumps(dataclasses.asdict(self), sort_keys=True)
        return hashlib.sha256(canonical.encode()).hexdigest()


def parse_training_request(text: str) -> TrainingRequest:
    """Read LOCKSTEP_TRAINING. Unknown and missing keys are refused, and the valid ones listed."""
    try:
        asked = json.loads(text)
    except ValueError as error:
        raise InvalidRequest(f"LOCKSTEP_TRAINING is not JSON: {error}") from error
    if not isinstance(asked, dict):
        raise InvalidRequest(f"LOCKSTEP_TRAINING must be a JSON object, got {type(asked).__name__}")
    if unknown := sorted(asked.keys() - _TYPES.keys()):
        raise InvalidRequest(f"LOCKSTEP_TRAINING has unknown keys {unknown}; valid keys are {sorted(_TYPES)}")
    if missing := sorted(_required() - asked.keys()):
        raise InvalidRequest(f"LOCKSTEP_TRAINING lacks {missing}; valid keys are {sorted(_TYPES)}")
    return TrainingRequest(**asked)


def _required() -> set[str]:
    return {
        field.name
        for field in dataclasses.fields(TrainingRequest)
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    }


def _check_type(name: str, value: object) -> None:
    expected = _TYPES[name]
    if isinstance(value, bool) or not isinstance(value, expected):
        names = " or ".join("null" if type_ is _NONE else type_.__name__ for type_ in expected)
        raise InvalidRequest(f"{name} must be {names}, got {value!r}")


def _check_positive(name: str, value: float | None) -> None:
    if value is not None and not (value > 0 and math.isfinite(value)):
        raise InvalidRequest(f"{name} must be greater than 0, got {value}")


def _check_choices(request: TrainingRequest) -> None:
    if (request.per_replica_batch_size is None) == (request.global_batch_size is None):
        raise InvalidRequest(
            "give exactly one of per_replica_batch_size and global_batch_size, "
            f"got {request.per_replica_batch_size} and {request.global_batch_size}"
        )
    if request.sharding not in get_args(Sharding):
        raise InvalidRequest(f"sharding must be one of {get_args(Sharding)}, got {request.sharding!r}")
    if not (request.warmup_epochs >= 0 and math.isfinite(request.warmup_epochs)):
        raise InvalidRequest(f"warmup_epochs must be 0 or more, got {request.warmup_epochs}")
    module, colon, attribute = request.job.partition(":")
    if not (module and colon and attribute):
        raise InvalidRequest(f"job must be 'module:attribute', got {request.job!r}")
