"""The workers of the one-machine stack as processes: which run, and what becomes of the others when one is killed."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from threading import Thread

import psutil

from lockstep.local import service_process
from tests.e2e.waiting import awaited

START_TIMEOUT_S = 300
"""TensorFlow starts in seconds, on a machine with nothing else to do."""


def workers(state: Path) -> dict[int, psutil.Process]:
    """The running gang's processes, by rank."""
    return {
        int(rank): process
        for process in service_process.marked(state)
        if (rank := _variable(process, "LOCKSTEP_RANK")) is not None
    }


def _variable(process: psutil.Process, name: str) -> str | None:
    try:
        return process.environ().get(name)
    except (psutil.Error, OSError):
        return None  # gone meanwhile


class Killer:
    """Kills one worker once `training` holds, while the gang is run elsewhere in this process.

    `outlived_s` is how long any worker of the gang lived on. A gang that never gets that far is ended.
    """

    def __init__(self, state: Path, rank: int, training: Callable[[], bool]) -> None:
        self.outlived_s: float | None = None
        self._state, self._rank, self._training = state, rank, training
        self._thread = Thread(target=self._kill)

    def __enter__(self) -> Killer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join()

    def _kill(self) -> None:
        try:
            awaited(self._training, what="the gang to train", timeout_s=START_TIMEOUT_S)
            workers(self._state)[self._rank].kill()
            killed_at = time.monotonic()
            awaited(lambda: not workers(self._state), what="the other workers' end", timeout_s=60)
            self.outlived_s = time.monotonic() - killed_at
        finally:
            for process in workers(self._state).values():
                process.kill()
