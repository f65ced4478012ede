"""Which processes were started, on disk, so that a server that was killed leaves none behind for long."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from lockstep.local.kube.process_tree import ContainerIdentity, end_processes

_FOLDER = "processes"


class ProcessLedger:
    """One small file per container that runs."""

    def __init__(self, state: Path) -> None:
        self._folder = state / _FOLDER
        self._folder.mkdir(parents=True, exist_ok=True)

    def record(self, uid: str, container: ContainerIdentity) -> None:
        (self._folder / uid).write_text(json.dumps(asdict(container)))

    def forget(self, uid: str) -> None:
        (self._folder / uid).unlink(missing_ok=True)


def end_leftover_processes(state: Path) -> int:
    """End what a server that was killed left behind in its state folder; return how many processes that were.

    Not to be called while a server runs on that folder: these are its pods.
    """
    ended = 0
    for file in sorted((state / _FOLDER).glob("*")):
        entry = _read(file)
        ended += 0 if entry is None else end_processes(entry)
        file.unlink(missing_ok=True)
    return ended


def _read(file: Path) -> ContainerIdentity | None:
    try:
        return ContainerIdentity(**json.loads(file.read_bytes()))
    except (ValueError, TypeError):
        return None  # the server was killed while it wrote
