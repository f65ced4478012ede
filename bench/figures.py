"""What was measured, as values that outlive the process: one JSON object a line, read again by `report.py`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any


@dataclass(frozen=True, kw_only=True, slots=True)
class RunFigures:
    """One run from the first request to the last. `watching_*` is the watcher's alone; `ran_s` is how long was watched.

    `memory_bytes` is what it had at most, over what it had when it was idle.
    """

    created_s: float
    start_requests: int
    run_requests: int
    finish_requests: int
    bytes_read: int
    ran_s: float
    run_cpu_s: float
    watching_cpu_s: float
    memory_bytes: int

    @property
    def requests(self) -> int:
        return self.start_requests + self.run_requests + self.finish_requests


@dataclass(frozen=True, kw_only=True, slots=True)
class Figures:
    """Of one contender and size; `given_up` says why something is missing."""

    target: str
    contender: str
    pods: int
    run: RunFigures | None = None
    notices_s: tuple[float, ...] = ()
    given_up: str = ""

    def with_later(self, later: Figures) -> Figures:
        """The newer run, and all notices of failures."""
        notices_s = self.notices_s + later.notices_s
        return replace(later, run=later.run or self.run, notices_s=notices_s)


def write_figures(file: Path, figures: Figures) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a") as lines:
        lines.write(json.dumps(asdict(figures)) + "\n")


def read_figures(file: Path) -> Sequence[Figures]:
    """One for each contender and size, of all that was measured."""
    known: dict[tuple[str, str, int], Figures] = {}
    for line in file.read_text().splitlines():
        figures = _parsed(json.loads(line))
        key = figures.target, figures.contender, figures.pods
        known[key] = known[key].with_later(figures) if key in known else figures
    return list(known.values())


def _parsed(given: dict[str, Any]) -> Figures:
    run = RunFigures(**given["run"]) if given["run"] else None
    return Figures(**given | {"run": run, "notices_s": tuple(given["notices_s"])})
