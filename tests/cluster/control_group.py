"""The control group in which everything of the cluster runs: components, shims and containers.

It is how the cluster's processes are told from the machine's, whoever started them and whatever crashed. Works with
version 1, where each resource has a hierarchy of its own, and with version 2, which has one.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.waiting import wait_until

MOUNT = Path("/sys/fs/cgroup")


@dataclass(frozen=True, kw_only=True, slots=True)
class ControlGroup:
    """`name` directly under the root of every hierarchy."""

    name: str

    def make(self) -> None:
        for hierarchy in hierarchies():
            for folder in (hierarchy / self.name, hierarchy / self.name / "system"):
                _make(folder)

    @property
    def components(self) -> Path:
        """The file that moves the process whose id is written to it among the cluster's components."""
        return self._members / "system" / "cgroup.procs"

    def processes(self) -> tuple[int, ...]:
        """Ids of all processes of the cluster, descendants of its components and its containers' included."""
        files = self._members.rglob("cgroup.procs") if self._members.exists() else ()
        return tuple(int(word) for file in files for word in _read(file).split())

    def end_all(self, timeout_s: float = 20.0) -> None:
        """SIGKILL until nothing is left. Raises TimeoutError where something stays."""
        wait_until(self._killed, what=f"the processes of control group {self.name} to end", timeout_s=timeout_s)

    def remove(self) -> None:
        for hierarchy in hierarchies():
            for folder in _deepest_first(hierarchy / self.name):
                folder.rmdir()

    @property
    def _members(self) -> Path:
        return (MOUNT / "pids" if version_1() else MOUNT) / self.name

    def _killed(self) -> bool:
        remaining = self.processes()
        for process in remaining:
            _kill(process)
        return not remaining


def version_1() -> bool:
    return not (MOUNT / "cgroup.controllers").exists()


def hierarchies() -> tuple[Path, ...]:
    """Roots of the mounted hierarchies; one alone with version 2."""
    if not version_1():
        return (MOUNT,)
    return tuple(sorted({folder.resolve() for folder in MOUNT.iterdir() if (folder / "cgroup.procs").exists()}))


def _make(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    for setting in ("cpuset.cpus", "cpuset.mems"):  # version 1 begins them empty, and then admits no process
        if version_1() and (folder / setting).exists() and not _read(folder / setting).strip():
            (folder / setting).write_text(_read(folder.parent / setting))


def _deepest_first(folder: Path) -> Iterator[Path]:
    for current, _, _ in os.walk(folder, topdown=False):
        yield Path(current)


def _read(file: Path) -> str:
    try:
        return file.read_text()
    except (FileNotFoundError, OSError):  # the group went while we looked
        return ""


def _kill(process: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)
