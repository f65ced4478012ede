"""Processes of the stack: started in a session of their own, found again, measured and ended.

A process is known by its id *and* its start time, so that a reused id is never mistaken for it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from lockstep.local.service import MARKER, Service
from lockstep.local.start_time import has_started, started_s

# A Popen that is collected while its process lives complains; these processes outlive this one on purpose.
_started: list[subprocess.Popen[bytes]] = []


@dataclass(frozen=True, kw_only=True, slots=True)
class ServiceProcess:
    """A service's process: leader of its own session and process group.

    `created_at` is Unix time, `started_s` what tells it from a later process of its number.
    """

    pid: int
    created_at: float
    started_s: float
    fingerprint: str

    def living(self) -> psutil.Process | None:
        """Return the process if it still runs, else None."""
        try:
            process = psutil.Process(self.pid)
            same = has_started(process, self.started_s)
        except psutil.NoSuchProcess:
            return None
        return process if same and is_alive(process) else None


def start(service: Service, log: Path) -> ServiceProcess:
    """Start the service detached from this process and its terminal; its output goes to `log`, the last one is kept."""
    log.parent.mkdir(parents=True, exist_ok=True)
    service.cwd.mkdir(parents=True, exist_ok=True)
    if log.exists():
        log.replace(log.with_suffix(".previous.log"))
    with log.open("wb") as output:
        process = subprocess.Popen(
            service.argv,
            env=dict(service.env),
            cwd=service.cwd,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    _started.append(process)
    return recorded(psutil.Process(process.pid), service.fingerprint)


def recorded(process: psutil.Process, fingerprint: str) -> ServiceProcess:
    return ServiceProcess(
        pid=process.pid,
        created_at=process.create_time(),
        started_s=started_s(process),
        fingerprint=fingerprint,
    )


def end(processes: Collection[ServiceProcess], grace_s: float = 10.0) -> None:
    """Ask the process groups to end, and kill what is left of them after `grace_s`."""
    living = [found for process in processes if (found := process.living()) is not None]
    families = [member for leader in living for member in family(leader)]
    for leader in living:
        signal_group(leader, signal.SIGTERM)
    kill(await_end(families, grace_s))


def end_strays(state: Path, spared: Collection[ServiceProcess] = ()) -> int:
    """Kill every process that carries the stack's mark, but the spared ones, their descendants and ourselves.

    Return how many there were. A process may fork while we look, hence the rounds.
    """
    ended = 0
    for _ in range(5):
        strays = find_strays(state, spared)
        if not strays:
            break
        ended += len(strays)
        kill(strays)
    return ended


def find_strays(state: Path, spared: Collection[ServiceProcess] = ()) -> list[psutil.Process]:
    leaders = [leader for process in spared if (leader := process.living()) is not None]
    us = psutil.Process()
    kept = {member.pid for leader in leaders for member in family(leader)} | {us.pid, *(p.pid for p in us.parents())}
    return [process for process in marked(state) if process.pid not in kept]


def marked(state: Path) -> Iterator[psutil.Process]:
    """Yield every running process that was started, at whatever remove, by the stack of this state folder."""
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARKER) == str(state) and is_alive(process):
                yield process
        except (psutil.Error, OSError):
            continue  # Gone meanwhile, or another user's: not ours in either case.


def family(leader: psutil.Process) -> list[psutil.Process]:
    try:
        return [leader, *leader.children(recursive=True)]
    except psutil.NoSuchProcess:
        return [leader]


def kill(processes: Collection[psutil.Process], wait_s: float = 5.0) -> None:
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    await_end(processes, wait_s)


def await_end(processes: Collection[psutil.Process], timeout_s: float) -> list[psutil.Process]:
    """Wait until the processes have ended, and return those that have not."""
    deadline = time.monotonic() + timeout_s
    while (living := [process for process in processes if is_alive(process)]) and time.monotonic() < deadline:
        time.sleep(0.05)
    return living


def is_alive(process: psutil.Process) -> bool:
    """Tell whether the process still runs: one that only waits for its parent to notice its end does not."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def signal_group(leader: psutil.Process, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.killpg(leader.pid, number)


def memory_bytes(processes: Collection[psutil.Process]) -> int:
    """Return the memory of the processes together, shared pages counted once where the system can tell."""
    return sum(map(memory_of, processes))


def memory_of(process: psutil.Process) -> int:
    try:
        return process.memory_full_info().pss if sys.platform == "linux" else process.memory_info().rss
    except psutil.Error:
        return 0
