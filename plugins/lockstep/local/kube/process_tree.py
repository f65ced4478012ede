"""A container's processes on the machine: who belongs to it, how much memory they hold, and how they all end.

A container is a session: its first process leads it. Whoever left the session is known by a variable that each process
inherits, whose value no other container has.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from lockstep.local.start_time import SAME_WITHIN_S, has_started, started_s

_ROUNDS = 5
_GONE = (psutil.NoSuchProcess, psutil.AccessDenied, ProcessLookupError, PermissionError)


@dataclass(frozen=True, kw_only=True, slots=True)
class ContainerIdentity:
    """The first process, not to be mistaken for a later one of its number, and the variable that all inherit.

    `started_s` is what `start_time` tells; `marker` is `NAME=value`.
    """

    pid: int
    started_s: float
    marker: str


def container_identity(pid: int, marker: str) -> ContainerIdentity:
    """Return the identity of a container whose first process was started just now; it may have ended meanwhile."""
    started = 0.0  # what nothing that runs has begun before
    with contextlib.suppress(psutil.NoSuchProcess):
        started = started_s(psutil.Process(pid))
    return ContainerIdentity(pid=pid, started_s=started, marker=marker)


def family(container: ContainerIdentity) -> list[psutil.Process]:
    """Return the first process, its session and its descendants, as far as they live. Cheap enough to ask often."""
    found: dict[int, psutil.Process] = {}
    with contextlib.suppress(psutil.NoSuchProcess):
        first = psutil.Process(container.pid)
        if not has_started(first, container.started_s):
            return []  # the number was given to another process, so the session is empty
        found = {each.pid: each for each in (first, *first.children(recursive=True))}
    for pid in psutil.pids():
        with contextlib.suppress(*_GONE):
            if pid not in found and os.getsid(pid) == container.pid:
                found[pid] = psutil.Process(pid)
    return [each for each in found.values() if _lives(each)]


def end_processes(container: ContainerIdentity) -> int:
    """Kill what is left of a container and return how many processes that were; repeats while they fork."""
    ended: set[psutil.Process] = set()
    for _ in range(_ROUNDS):
        if not (left := {*family(container), *_marked(container)}):
            break
        for process in left:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(left, timeout=1.0)
        ended |= left
    return len(ended)


def memory_bytes(container: ContainerIdentity) -> int:
    """Return what the container's processes hold and the kernel could not take back by dropping files."""
    return sum(_own_memory_bytes(each) for each in family(container))


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


def _marked(container: ContainerIdentity) -> Iterator[psutil.Process]:
    name, _, value = container.marker.partition("=")
    for process in psutil.process_iter():
        with contextlib.suppress(*_GONE):
            is_younger = started_s(process) > container.started_s - SAME_WITHIN_S
            if is_younger and _lives(process) and process.environ().get(name) == value:
                yield process


def _own_memory_bytes(process: psutil.Process) -> int:
    try:
        memory = process.memory_info()
    except _GONE:
        return 0
    return int(memory.rss - getattr(memory, "shared", 0))


def _lives(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
