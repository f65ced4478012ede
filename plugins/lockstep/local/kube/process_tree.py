"""A container's processes on the machine: who belongs to it, how much memory they hold, and how they all end.

A container is a session: its first process leads it. Whoever left the session is still found while its parent lives.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

_SAME_START_S = 2.0
_ROUNDS = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class ProcessIdentity:
    """A process that cannot be mistaken for a later one of the same number. `started_at` is epoch seconds."""

    pid: int
    started_at: float


def identity_of(pid: int) -> ProcessIdentity:
    """Return the identity of a process that was started just now; it may have ended meanwhile."""
    try:
        return ProcessIdentity(pid=pid, started_at=psutil.Process(pid).create_time())
    except psutil.NoSuchProcess:
        return ProcessIdentity(pid=pid, started_at=time.time())


def processes_of(leader: ProcessIdentity) -> list[psutil.Process]:
    """Return the container's processes that live: the leader's session, and the leader's descendants."""
    found: dict[int, psutil.Process] = {}
    with contextlib.suppress(psutil.NoSuchProcess):
        process = psutil.Process(leader.pid)
        if abs(process.create_time() - leader.started_at) > _SAME_START_S:
            return []  # the number was given to another process, so our session is empty
        found = {each.pid: each for each in (process, *process.children(recursive=True))}
    for pid in psutil.pids():
        with contextlib.suppress(ProcessLookupError, PermissionError, psutil.NoSuchProcess):
            if pid not in found and os.getsid(pid) == leader.pid:
                found[pid] = psutil.Process(pid)
    return [each for each in found.values() if _lives(each)]


def end_processes(leader: ProcessIdentity) -> int:
    """Kill what is left of a container and return how many processes that were; repeats while they fork."""
    ended = 0
    for _ in range(_ROUNDS):
        if not (left := processes_of(leader)):
            break
        for process in left:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
                ended += 1
        psutil.wait_procs(left, timeout=1.0)
    return ended


def memory_bytes(leader: ProcessIdentity) -> int:
    """Return what the container's processes hold and the kernel could not take back by dropping files."""
    return sum(_own_memory_bytes(each) for each in processes_of(leader))


def catches(pid: int, number: signal.Signals) -> bool:
    """Say whether a process has a handler for a signal; True where the system does not tell.

    In a container the first process has number 1, and the kernel gives it no signal that it has no handler for.
    """
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return True
    caught = next((int(line.split()[1], 16) for line in lines if line.startswith("SigCgt:")), -1)
    return bool(caught >> (number - 1) & 1)


def _own_memory_bytes(process: psutil.Process) -> int:
    try:
        memory = process.memory_info()
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return 0
    return int(memory.rss - getattr(memory, "shared", 0))


def _lives(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
