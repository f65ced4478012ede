"""What was seen of one attempt of a gang, kept up to date event by event. Pure.

Pods are told apart by UID: an event about any pod that this attempt did not launch changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from lockstep.pod_event import PodEvent, PodGone, PodSeen, PodsListed
from lockstep.pod_snapshot import PodSnapshot
from lockstep.running_gang import RunningGang


@dataclass(frozen=True, kw_only=True, slots=True)
class GangView:
    """The latest snapshot of each rank, and the ranks whose pod is no more.

    The start-up clock runs since `startup_from` (seconds since the epoch): no time in a queue counts.
    """

    startup_from: float
    pods: Mapping[int, PodSnapshot]
    gone: frozenset[int] = field(default_factory=frozenset)

    @property
    def queued(self) -> bool:
        """Whether a queue holds any of the pods back."""
        return any(pod.queued for rank, pod in self.pods.items() if rank not in self.gone)

    @property
    def all_started(self) -> bool:
        return all(pod.started for pod in self.pods.values())


def launched_view(running: RunningGang, now: float) -> GangView:
    """The view as its watch begins: every pod exists, none has been looked at yet.

    How long a queue has held the gang back before, nobody knows who begins to watch it now.
    """
    return GangView(
        startup_from=now if running.in_queue else running.launched_at,
        pods={
            rank: PodSnapshot(
                name=running.pod(rank),
                uid=uid,
                rank=rank,
                attempt=running.attempt,
                phase="Pending",
                role=member.role,
                role_index=member.index,
            )
            for rank, (uid, member) in enumerate(zip(running.uids, running.members, strict=True))
        },
    )


def observe(view: GangView, event: PodEvent, now: float) -> GangView:
    """The view after `event`. A full listing shows by absence which pods are gone."""
    view = _changed(view, event)
    return replace(view, startup_from=now) if view.queued else view


def _changed(view: GangView, event: PodEvent) -> GangView:
    match event:
        case PodSeen(pod):
            return _seen(view, pod)
        case PodGone(pod):
            return _gone(_seen(view, pod), {pod.uid})
        case PodsListed(pods):
            for pod in pods:
                view = _seen(view, pod)
            return _gone(view, {known.uid for known in view.pods.values()} - {pod.uid for pod in pods})


def _seen(view: GangView, pod: PodSnapshot) -> GangView:
    if pod.rank not in view.pods or view.pods[pod.rank].uid != pod.uid:
        return view
    return replace(view, pods={**view.pods, pod.rank: pod})


def _gone(view: GangView, uids: set[str]) -> GangView:
    return replace(view, gone=view.gone | {rank for rank, pod in view.pods.items() if pod.uid in uids})
