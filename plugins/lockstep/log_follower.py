"""Workers' logs into the task's log, line by line while they train, over reconnects without loss or repetition.

Whatever goes wrong with a log, the gang's fate is not its business: nothing is raised here.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress

from lockstep.cluster import Cluster, LogLine
from lockstep.errors import LockstepError, NotPermitted
from lockstep.gang_view import GangView
from lockstep.running_gang import RunningGang

log = logging.getLogger(__name__)

RECONNECT_PAUSE_S = 1.0
NEWS_OF_END_S = 2.0
"""How long after the end of a log to wait for the news that its container has ended. Logs end before it where an API
server is shut down, or a kubelet rotates them."""
DRAIN_TIMEOUT_S = 5.0
LINES_AT_ONCE = 10
"""How many lines of one log are passed on before others in the same process have their turn, other triggers too."""


class LogFollowers:
    """The logs that the task shows. Use as an async context manager; `start` as often as one likes."""

    def __init__(self, cluster: Cluster, running: RunningGang) -> None:
        shown = range(running.workers if running.logs == "all" else 1)
        self._followers = {rank: _LogFollower(cluster, running.pod(rank), _prefix(running, rank)) for rank in shown}

    async def __aenter__(self) -> LogFollowers:
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.gather(*(follower.stop() for follower in self._followers.values()))

    def start(self, view: GangView) -> None:
        """Follow the containers that have started."""
        for rank, follower in self._followers.items():
            if view.pods[rank].started:
                follower.start()
            if view.pods[rank].ended:
                follower.ended.set()

    async def drain(self, view: GangView, *, whole: bool) -> None:
        """Wait for the last lines of containers that have ended; those of others have no end yet.

        Not long, unless the log is to be had `whole`: then for as long as lines come.
        """
        self.start(view)
        ended = (follower for follower in self._followers.values() if follower.ended.is_set())
        await asyncio.gather(*(follower.drain(whole=whole) for follower in ended))


def _prefix(running: RunningGang, rank: int) -> str:
    return "[chief] " if rank == 0 else f"[{running.members[rank]}] "


class _LogFollower:
    """`start()` once the pod's container has started, as often as one likes; set `ended` once it has ended."""

    def __init__(self, cluster: Cluster, pod: str, prefix: str) -> None:
        self._cluster, self._pod, self._prefix = cluster, pod, prefix
        self._task: asyncio.Task[None] | None = None
        self._told = 0
        self.ended = asyncio.Event()

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def start(self) -> None:
        if self._task is None:
            self._task = asyncio.create_task(self._follow())

    async def drain(self, *, whole: bool) -> None:
        if self._task is None:
            return
        while True:
            told_before = self._told
            done, _ = await asyncio.wait({self._task}, timeout=DRAIN_TIMEOUT_S)
            if done or not whole or self._told == told_before:
                return

    async def _follow(self) -> None:
        last: LogLine | None = None
        while True:
            try:
                async for line in self._cluster.log(self._pod, last):
                    log.info("%s%s", self._prefix, line.text)
                    last, self._told = line if line.at else last, self._told + 1
                    if self._told % LINES_AT_ONCE == 0:
                        await asyncio.sleep(0)
                if await self._has_ended():
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

    async def _has_ended(self) -> bool:
        with suppress(TimeoutError):
            await asyncio.wait_for(self.ended.wait(), NEWS_OF_END_S)
        return self.ended.is_set()
