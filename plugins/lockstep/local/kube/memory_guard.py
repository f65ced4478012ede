"""Kills the containers that pass their memory limit, as the kernel does for a cgroup.

It samples, in a thread of its own, and only while there is a limit to guard: a process that gives its memory back
between two samples gets away with it.
"""

from __future__ import annotations

import asyncio

from lockstep.local.kube.container_process import ContainerProcess
from lockstep.local.kube.process_tree import memory_bytes

_PERIOD_S = 0.25


class MemoryGuard:
    """Containers and their limits in bytes."""

    def __init__(self) -> None:
        self._limits: dict[ContainerProcess, int] = {}
        self._guarding: asyncio.Task[None] | None = None

    def add(self, process: ContainerProcess, limit_bytes: int | None) -> None:
        if limit_bytes is None:
            return
        self._limits[process] = limit_bytes
        if self._guarding is None or self._guarding.done():
            self._guarding = asyncio.create_task(self._guard())

    def remove(self, process: ContainerProcess) -> None:
        self._limits.pop(process, None)

    async def _guard(self) -> None:
        while self._limits:
            for process, limit_bytes in list(self._limits.items()):
                if await asyncio.to_thread(memory_bytes, process.identity) > limit_bytes and process in self._limits:
                    process.passed_memory_limit = True
                    process.kill()
            await asyncio.sleep(_PERIOD_S)
