"""When a process began, so that a later one with its number is not taken for it."""

from __future__ import annotations

import sys

import psutil

SAME_WITHIN_S = 2.0


def started_s(process: psutil.Process) -> float:
    """Seconds from the system's start to the process's, which no correction of the clock changes.

    Linux knows this time only; `create_time()` adds the clock to it, so that it moves whenever the clock is set. macOS
    keeps the moment itself, in Unix time. Raises psutil.NoSuchProcess.
    """
    created_at = process.create_time()
    return float(created_at - psutil.boot_time() if sys.platform == "linux" else created_at)


def has_started(process: psutil.Process, at_s: float) -> bool:
    """Whether the process is the one that began then. The kernel rounds the two times that `started_s` subtracts."""
    return abs(started_s(process) - at_s) < SAME_WITHIN_S
