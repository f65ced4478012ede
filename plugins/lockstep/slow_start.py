"""Why a gang does not run: told in the log while it waits, and in the error that ends it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from lockstep.cluster import Cluster
from lockstep.gang_state import describe
from lockstep.gang_view import GangView
from lockstep.running_gang import RunningGang

log = logging.getLogger(__name__)

FIRST_TOLD_AFTER_S = 60.0
"""Then after twice as long, and so on: a queue may take hours."""
WARNINGS = 3


@asynccontextmanager
async def told_while_it_waits(
    running: RunningGang, view: Callable[[], GangView], cluster: Cluster
) -> AsyncIterator[None]:
    """Log now and then what the workers wait for, until all of them run."""
    telling = asyncio.create_task(_tell(running, view, cluster))
    try:
        yield
    finally:
        telling.cancel()
        await asyncio.gather(telling, return_exceptions=True)  # what explains a gang does not end it


async def warned(running: RunningGang, cluster: Cluster) -> str:
    """What the cluster itself says of pods that do not start, in one line; empty where it says nothing."""
    warnings = await cluster.warnings(running.gang, running.attempt)
    told = "; ".join(" ".join(warning.split()) for warning in warnings[:WARNINGS])
    more = f" (and of {len(warnings) - WARNINGS} more)" if len(warnings) > WARNINGS else ""
    return f"; the cluster warns of {told}{more}" if told else ""


async def _tell(running: RunningGang, view: Callable[[], GangView], cluster: Cluster) -> None:
    pause_s = FIRST_TOLD_AFTER_S
    await asyncio.sleep(pause_s)
    while not view().all_started:
        log.warning("%s does not run yet: %s%s", running.gang, describe(view()), await warned(running, cluster))
        pause_s *= 2
        await asyncio.sleep(pause_s)
