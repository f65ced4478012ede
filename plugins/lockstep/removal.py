"""Removes a gang and waits until it is gone: those of its pods whose node does not answer are removed by force.

Nothing may take the place of a gang before its pods are gone: they would write to the same run directory.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from lockstep.cluster import Cluster
from lockstep.errors import ClusterUnavailable
from lockstep.event_stream import EventStream
from lockstep.names import GangId
from lockstep.pod_event import PodEvent, PodGone, PodSeen, PodsListed
from lockstep.pod_snapshot import PodSnapshot
from lockstep.running_gang import RunningGang

log = logging.getLogger(__name__)

CLEAN_UP_TIMEOUT_S = 60.0
FORCED_TIMEOUT_S = 15.0

Pods = Mapping[str, PodSnapshot]
"""Pods that are there, by UID."""


@dataclass(frozen=True, slots=True)
class Removal:
    """The removal of a gang, of whatever launch or of the one whose Service has the UID `launch`.

    Where `keep_ended` is set, pods of a known `launch` that have ended stay for whoever wants to look at them, and so
    does the Service.
    """

    gang: GangId
    launch: str | None
    grace_s: int
    keep_ended: bool = False

    async def carry_out(self, cluster: Cluster) -> None:
        """Raises ClusterUnavailable if pods stay."""
        await self.ask(cluster)
        async with EventStream(cluster.events(self.gang)) as events:
            await self._see_through(cluster, events)

    async def ask(self, cluster: Cluster, *, by_force: bool = False) -> None:
        grace_s = 0 if by_force else self.grace_s
        if self.keep_ended and self.launch is not None:
            await cluster.delete_running(self.gang, grace_s, self.launch)
        else:
            await cluster.delete(self.gang, grace_s, self.launch)

    async def _see_through(self, cluster: Cluster, events: EventStream) -> None:
        timeout_s = self.grace_s + CLEAN_UP_TIMEOUT_S
        if (left := await self._left_after(timeout_s, events, None)) == {}:
            return
        log.warning("Not gone within %g s, so deleted by force: %s", timeout_s, _names(left))
        await self.ask(cluster, by_force=True)
        if (left := await self._left_after(FORCED_TIMEOUT_S, events, left)) != {}:
            raise ClusterUnavailable(
                f"pods are still there {timeout_s + FORCED_TIMEOUT_S:g} s after their deletion was asked for: "
                f"{_names(left)}; `kubectl describe pod` shows the finalizer that holds them"
            )

    async def _left_after(self, timeout_s: float, events: EventStream, left: Pods | None) -> Pods | None:
        """The pods that are still there by then, none of them as soon as may be; unknown (None) until an event."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while left is None or left:
                    if (event := await events.next_within(None)) is not None:
                        left = self._left(left or {}, event)
        return left

    def _left(self, before: Pods, event: PodEvent) -> Pods:
        """The pods that are there after `event`."""
        match event:
            case PodsListed(pods):
                return {pod.uid: pod for pod in pods if self._concerns(pod)}
            case PodSeen(pod):
                others = {uid: known for uid, known in before.items() if uid != pod.uid}
                return {**others, pod.uid: pod} if self._concerns(pod) else others
            case PodGone(pod):
                return {uid: known for uid, known in before.items() if uid != pod.uid}

    def _concerns(self, pod: PodSnapshot) -> bool:
        return self.launch in (None, pod.launch) and not (self.keep_ended and pod.ended)


def _names(pods: Pods | None) -> str:
    return ", ".join(pod.name for pod in pods.values()) if pods else "pods that the API does not list"


def removal_of(running: RunningGang, grace_s: int) -> Removal:
    """Of a gang that has not succeeded, as its author wants it cleaned up."""
    return Removal(running.gang, running.launch, grace_s, keep_ended=running.clean_up != "delete")
