"""Removes the gangs whose task is over: those at whose end Airflow told nobody.

Which these are is decided in `orphan.py`; how Airflow is asked for the state of a task is left to the caller.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from lockstep.cluster import Cluster
from lockstep.errors import ClusterUnavailable, LockstepError
from lockstep.names import GangId
from lockstep.orphan import Fate, Keep, Leave, Remove, TaskStates, judge
from lockstep.removal import Removal
from lockstep.standing_gang import StandingGang

log = logging.getLogger(__name__)

AskStates = Callable[[GangId], Awaitable[TaskStates]]


async def sweep(standing: Sequence[StandingGang], ask: AskStates, cluster: Cluster, grace_s: int) -> dict[str, Fate]:
    """Judge every gang and remove the orphans; the fates by Service, once the pods of the orphans are gone.

    An orphan is removed as soon as it is known to be one, and only the launch that was judged: the next try of a task
    that is cleared meanwhile has another. Raises ClusterUnavailable, after all the others, where a removal fails.
    """
    fates: dict[str, Fate] = {}
    removals: list[asyncio.Task[LockstepError | None]] = []
    try:
        for each in standing:
            fates[each.service] = fate = judge(each, await ask(each.gang) if each.gang else {})
            _tell(each, fate)
            if isinstance(fate, Remove):
                removal = Removal(fate.gang, each.launch, grace_s, fate.keep_ended)
                removals.append(asyncio.create_task(_carried_out(removal, cluster)))
    finally:
        failures = [failure for failure in await asyncio.gather(*removals) if failure is not None]
    if failures:
        raise ClusterUnavailable("; ".join(failure.told for failure in failures))
    return fates


def _tell(standing: StandingGang, fate: Fate) -> None:
    match fate:
        case Remove(gang=gang, state=state, keep_ended=True):
            log.info("Ending what may still run of %s: %s is over (%s)", standing.service, gang, state)
        case Remove(gang=gang, state=state):
            log.warning("Removing %s: %s is over (%s)", standing.service, gang, state)
        case Keep(gang=gang, state=state):
            log.info("Keeping %s: %s is %s", standing.service, gang, state or "not scheduled yet")
        case Leave(why=why):
            log.warning(
                "Leaving %s alone: %s; if nobody wants it: kubectl delete service %s",
                standing.service,
                why,
                standing.service,
            )


async def _carried_out(removal: Removal, cluster: Cluster) -> LockstepError | None:
    try:
        await removal.carry_out(cluster)
    except LockstepError as failure:
        return failure
    return None
