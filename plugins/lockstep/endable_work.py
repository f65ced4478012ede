"""Coroutines in a process that may be told to stop at any moment, by a signal's handler in the midst of them."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")


class ToldToStop(Exception):
    """The work was ended before its time, or its outcome came too late."""


class EndableWork:
    """One coroutine at a time, each in an event loop of its own."""

    def __init__(self) -> None:
        self._task: asyncio.Task[Any] | None = None
        self._told_to_stop = False

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """What `work` returns. Raises ToldToStop if `stop` was called meanwhile, or before."""
        if self._told_to_stop:
            work.close()
            raise ToldToStop
        with suppress(asyncio.CancelledError):
            outcome = asyncio.run(self._remembered(work))
            if not self._told_to_stop:
                return outcome
        raise ToldToStop

    def stop(self) -> bool:
        """Ask the running work to end. Whether there was any: a handler may be called between two of them, too."""
        self._told_to_stop = True
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return False
        loop.call_soon_threadsafe(self._cancel)
        return True

    async def _remembered(self, work: Coroutine[Any, Any, T]) -> T:
        self._task = asyncio.current_task()
        return await work

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()
