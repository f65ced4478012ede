"""A process of a contender: asked on its stdin, answered on its stdout, measured from outside."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import psutil

PROJECT = Path(__file__).parents[1]
LONGEST_LINE_BYTES = 256 * 2**20
SAMPLE_EVERY_S = 0.5


class Ended(Exception):
    """The process ended before it answered; the message is the end of its log."""


class MeasuredProcess:
    """`highest_rss_bytes` is the largest resident memory that was seen since it was last set to 0."""

    def __init__(self, process: asyncio.subprocess.Process, log: Path) -> None:
        self._process, self._log = process, log
        self._measured = psutil.Process(process.pid)
        self.highest_rss_bytes = 0

    def ask(self, **order: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order).encode() + b"\n")

    async def answer(self, within_s: float) -> dict[str, Any]:
        """Raises Ended, TimeoutError."""
        assert self._process.stdout is not None
        async with asyncio.timeout(within_s):
            line = await self._process.stdout.readline()
        if not line:
            raise Ended("\n".join(self._log.read_text().splitlines()[-5:]))
        answered: dict[str, Any] = json.loads(line)
        return answered

    def cpu_s(self) -> float:
        """Seconds of CPU since the process began, of all its threads."""
        times = self._measured.cpu_times()
        return times.user + times.system

    def rss_bytes(self) -> int:
        return int(self._measured.memory_info().rss)

    async def end(self) -> None:
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()

    async def sample(self) -> None:
        """For ever; a process that has ended has no memory to look at."""
        with suppress(psutil.NoSuchProcess):
            while True:
                self.highest_rss_bytes = max(self.highest_rss_bytes, self.rss_bytes())
                await asyncio.sleep(SAMPLE_EVERY_S)


@asynccontextmanager
async def started(
    module: str, *arguments: str, environment: Mapping[str, str], log: Path
) -> AsyncIterator[MeasuredProcess]:
    """`python -m module`, killed at the end; what it logs goes to a file, as a triggerer's log does."""
    with log.open("ab") as errors:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", module, *arguments),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=errors,
            limit=LONGEST_LINE_BYTES,
            cwd=PROJECT,
            env=_inherited() | dict(environment),
        )
    measured = MeasuredProcess(process, log)
    sampler = asyncio.create_task(measured.sample())
    try:
        yield measured
    finally:
        sampler.cancel()
        await measured.end()


def _inherited() -> dict[str, str]:
    """Without what this shell says of Airflow and of clusters: each contender has one connection, to the proxy."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "KUBECONFIG"))}
