"""A Cluster in memory: pods do what the test says, and every request is counted."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import count
from typing import Any

from lockstep.cluster import AlreadyExists, LogLine
from lockstep.gang_object import GangObject
from lockstep.names import ANNOTATION_SPEC, GangId
from lockstep.pod_event import PodEvent, PodGone, PodSeen, PodsListed
from lockstep.pod_plan import GangPlan, WorkerPod
from lockstep.pod_snapshot import PodSnapshot


class MemoryCluster:
    """See `lockstep.cluster.Cluster`. `fail_on` raises its error at the n-th call of an operation.

    With `keep_pods`, nodes do not answer: pods leave by force only.
    """

    def __init__(self) -> None:
        self.service: str | None = None
        self.objects: list[GangObject] = []
        self.living: dict[str, PodSnapshot] = {}
        self.requests: Counter[str] = Counter()
        self.fail_on: dict[tuple[str, int], Exception] = {}
        self.keep_pods = False
        self.warned: tuple[str, ...] = ()
        self._uids = count(1)
        self._watchers: list[asyncio.Queue[PodEvent | Exception]] = []

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[None]:
        yield

    async def create_service(self, plan: GangPlan) -> str | None:
        self._request("create_service")
        if self.service is not None:
            return None
        self.service = f"service-{next(self._uids)}"
        return self.service

    async def create_object(self, plan: GangPlan, thing: GangObject, owner_uid: str) -> None:
        self._request("create_object")
        self.objects.append(thing)

    async def create_pod(self, plan: GangPlan, worker: WorkerPod, owner_uid: str) -> PodSnapshot:
        self._request("create_pod")
        await asyncio.sleep(0)
        if worker.name in self.living:
            raise AlreadyExists(f"create pod {worker.name}")
        pod = PodSnapshot(
            name=worker.name,
            uid=f"uid-{next(self._uids)}",
            rank=worker.rank,
            attempt=plan.attempt,
            launch=owner_uid,
            phase="Pending",
            role=worker.member.role,
            role_index=worker.member.index,
            spec=worker.annotations[ANNOTATION_SPEC],
        )
        self._set(pod)
        return pod

    async def pods(self, gang: GangId) -> Sequence[PodSnapshot]:
        self._request("pods")
        return tuple(self.living.values())

    async def events(self, gang: GangId) -> AsyncGenerator[PodEvent]:
        queue: asyncio.Queue[PodEvent | Exception] = asyncio.Queue()
        self._watchers.append(queue)
        yield PodsListed(tuple(self.living.values()))
        while True:
            event = await queue.get()
            if isinstance(event, Exception):
                raise event
            yield event

    async def log(self, pod: str, since: LogLine | None) -> AsyncIterator[LogLine]:
        yield LogLine("2026-01-01T00:00:00Z", f"hello from {pod}")

    async def tail(self, pod: str, lines: int) -> Sequence[str]:
        return (f"last words of {pod}",)

    async def warnings(self, gang: GangId, attempt: int) -> Sequence[str]:
        return self.warned

    async def delete_running(self, gang: GangId, grace_s: int, launch: str) -> None:
        self._request("delete")
        for pod in [pod for pod in self.living.values() if pod.launch == launch and not pod.ended]:
            self.vanish(pod.rank)

    async def delete(self, gang: GangId, grace_s: int, launch: str | None = None) -> None:
        self._request("delete")
        if launch in (None, self.service):
            self.service = None
        if grace_s == 0 or not self.keep_pods:
            for pod in [pod for pod in self.living.values() if launch in (None, pod.launch)]:
                self.vanish(pod.rank)

    def change(self, rank: int, **status: Any) -> None:
        """The pod of `rank` changes its status, and watchers are told."""
        self._set(replace(self._of(rank), **status))

    def recreate(self, rank: int, **status: Any) -> None:
        """Somebody deletes the pod of `rank` and makes another of its name."""
        pod = self._of(rank)
        self.vanish(rank)
        self._set(replace(pod, **status))

    def vanish(self, rank: int) -> None:
        pod = self.living.pop(self._of(rank).name)
        for watcher in self._watchers:
            watcher.put_nowait(PodGone(pod))

    def break_watches(self, failure: Exception) -> None:
        for watcher in self._watchers:
            watcher.put_nowait(failure)

    def _set(self, pod: PodSnapshot) -> None:
        self.living[pod.name] = pod
        for watcher in self._watchers:
            watcher.put_nowait(PodSeen(pod))

    def _of(self, rank: int) -> PodSnapshot:
        return next(pod for pod in self.living.values() if pod.rank == rank)

    def _request(self, operation: str) -> None:
        self.requests[operation] += 1
        if failure := self.fail_on.get((operation, self.requests[operation])):
            raise failure
