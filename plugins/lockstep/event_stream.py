"""The next event, or none within so many seconds. Waiting in vain does not disturb the stream behind it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from lockstep.pod_event import PodEvent


class EventStream:
    """Use as an async context manager around an endless generator, which is closed at its end."""

    def __init__(self, events: AsyncGenerator[PodEvent]) -> None:
        self._events = events
        self._coming: asyncio.Task[PodEvent] | None = None

    async def __aenter__(self) -> EventStream:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._coming is not None:
            self._coming.cancel()
            await asyncio.gather(self._coming, return_exceptions=True)
        await self._events.aclose()

    async def next_within(self, timeout_s: float | None) -> PodEvent | None:
        """Raises what the iterator raises."""
        if self._coming is None:
            self._coming = asyncio.ensure_future(self._next())
        done, _ = await asyncio.wait({self._coming}, timeout=timeout_s)
        if not done:
            return None
        event, self._coming = self._coming.result(), None
        return event

    async def _next(self) -> PodEvent:
        return await anext(self._events)
