"""The chief's log into the task's log, line by line while it trains, over reconnects without loss or repetition.

Whatever goes wrong with a log, the gang's fate is not its business: nothing is raised here.
"""

from __future__ import annotations

import asyncio
import logging

from lockstep.cluster import Cluster, LogLine
from lockstep.errors import LockstepError, NotPermitted

log = logging.getLogger(__name__)

RECONNECT_PAUSE_S = 1.0
DRAIN_TIMEOUT_S = 5.0


class LogFollower:
    """Use as an async context manager; `start()` once the pod's container has started, as often as one likes."""

    def __init__(self, cluster: Cluster, pod: str, prefix: str) -> None:
        self._cluster, self._pod, self._prefix = cluster, pod, prefix
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> LogFollower:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def start(self) -> None:
        if self._task is None:
            self._task = asyncio.create_task(self._follow())

    async def drain(self) -> None:
        """Wait, but not long, for the last lines of a container that has ended."""
        if self._task is not None:
            await asyncio.wait({self._task}, timeout=DRAIN_TIMEOUT_S)

    async def _follow(self) -> None:
        last: LogLine | None = None
        while True:
            try:
                async for line in self._cluster.log(self._pod, last):
                    log.info("%s%s", self._prefix, line.text)
                    last = line
                return
            except NotPermitted as refusal:
                log.warning("The log of %s is not followed: %s", self._pod, refusal)
                return
            except LockstepError as cut:
                log.info("The log of %s was cut (%s)", self._pod, cut)
            except Exception:
                log.exception("The log of %s is not followed any more", self._pod)
                return
            await asyncio.sleep(RECONNECT_PAUSE_S)
