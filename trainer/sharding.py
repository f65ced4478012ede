"""Which worker reads what. FILE: each worker reads files of its own. DATA: each reads all files, and keeps its share.

The rule is the Airflow side's own; it is applied again here because the files may have changed in between.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from trainer.errors import InvalidData
from trainer.training_request import Sharding

EVEN_WITHIN: Final = 1.05
"""How many times the smallest share in bytes the largest may be for `auto` to choose FILE: all workers draw the same
number of samples in an epoch, so what one share has more is left out."""

Policy = Literal["FILE", "DATA"]
Sizes = Callable[[], Sequence[int]]
_Choice = tuple[Policy, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class ShardingPlan:
    """The policy in force, and why."""

    policy: Policy
    files: int
    workers: int
    reason: str

    def describe(self) -> str:
        return f"sharding: {self.policy}, {self.files} files on {self.workers} workers, because {self.reason}"

    def report(self) -> dict[str, Any]:
        return {"policy": self.policy, "files": self.files, "workers": self.workers, "reason": self.reason}


def plan_sharding(asked: Sharding, files: int, workers: int, size_bytes: Sizes) -> ShardingPlan:
    """Choose the policy. Pure, but for asking `size_bytes`, of each file in their order, where it matters.

    Raises InvalidData when FILE is demanded with fewer files than workers.
    """
    policy, reason = _RULES[asked](files, workers, size_bytes)
    return ShardingPlan(policy=policy, files=files, workers=workers, reason=reason)


def _by_request(files: int, workers: int, size_bytes: Sizes) -> _Choice:
    if files < workers:
        raise InvalidData(
            f"sharding 'file' needs a file for each of the {workers} workers, and there are {files}: "
            "write more files, or ask for 'auto' or 'data'"
        )
    remainder = files % workers
    uneven = f", and {remainder} workers read one file more than the others" if remainder else ""
    return "FILE", f"it was asked for{uneven}{_told(_shares(workers, size_bytes))}"


def _by_evenness(files: int, workers: int, size_bytes: Sizes) -> _Choice:
    if files < workers:
        return "DATA", "there are fewer files than workers"
    if files % workers:
        return "DATA", f"{files} files are no multiple of {workers} workers"
    shares = _shares(workers, size_bytes)
    if not _is_even(shares):
        return "DATA", f"the shares of files would differ by {_spread_percent(shares)} %"
    return "FILE", f"every worker gets {files // workers} of them"


def _shares(workers: int, size_bytes: Sizes) -> list[int]:
    """Bytes by rank. A worker alone has all of them, and nobody to compare with."""
    if workers == 1:
        return [0]
    sizes = size_bytes()
    return [sum(sizes[rank::workers]) for rank in range(workers)]


def _is_even(shares: Sequence[int]) -> bool:
    return max(shares) <= EVEN_WITHIN * min(shares)


def _spread_percent(shares: Sequence[int]) -> int:
    """By how much the largest exceeds the smallest, of which an empty one counts as a byte."""
    return round(100 * (max(shares) / max(min(shares), 1) - 1))


def _told(shares: Sequence[int]) -> str:
    return "" if _is_even(shares) else f", though the shares of files differ by {_spread_percent(shares)} %"


_RULES: Final[dict[Sharding, Callable[[int, int, Sizes], _Choice]]] = {
    "file": _by_request,
    "auto": _by_evenness,
    "data": lambda *_: ("DATA", "it was asked for"),
}
