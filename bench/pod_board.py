"""What the benchmark itself sees of a namespace's pods, on a watch that no contender pays for."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from typing import Any

from bench.api import Api


class PodBoard:
    """The pods that are there, by name; `changed_at` is when the last change was heard of (seconds since the epoch)."""

    def __init__(self) -> None:
        self.pods: dict[str, Any] = {}
        self.changed_at = 0.0
        self._news = asyncio.Condition()

    @asynccontextmanager
    async def following(self, api: Api, namespace: str) -> AsyncIterator[None]:
        follower = asyncio.create_task(self._follow(api, namespace))
        try:
            yield
        finally:
            follower.cancel()
            with suppress(asyncio.CancelledError):
                await follower

    def of_phase(self, phase: str) -> list[str]:
        return [name for name, pod in self.pods.items() if pod["status"].get("phase") == phase]

    async def until(self, holds: Callable[[PodBoard], bool], within_s: float) -> float:
        """When it first held. Raises TimeoutError, which says how the pods are."""
        try:
            async with asyncio.timeout(within_s), self._news:
                await self._news.wait_for(lambda: holds(self))
                return self.changed_at
        except TimeoutError:
            raise TimeoutError(f"after {within_s:g} s the pods are {_counted(self.pods.values())}") from None

    async def _follow(self, api: Api, namespace: str) -> None:
        path = f"/api/v1/namespaces/{namespace}/pods"
        while True:
            listed = await api.ask("GET", path)
            await self._tell({_name(pod): _needed(pod) for pod in listed["items"]})
            async for change in api.watch(path, listed["metadata"]["resourceVersion"]):
                pod = change["object"]
                match change["type"]:
                    case "ADDED" | "MODIFIED":
                        await self._tell(self.pods | {_name(pod): _needed(pod)})
                    case "DELETED":
                        await self._tell({name: each for name, each in self.pods.items() if name != _name(pod)})

    async def _tell(self, pods: dict[str, Any]) -> None:
        async with self._news:
            self.pods, self.changed_at = pods, time.time()
            self._news.notify_all()


def _name(pod: Any) -> str:
    return str(pod["metadata"]["name"])


def _needed(pod: Any) -> dict[str, Any]:
    return {"metadata": pod["metadata"], "status": pod["status"]}


def _counted(pods: Iterable[Any]) -> str:
    phases = [pod["status"].get("phase", "?") for pod in pods]
    return ", ".join(f"{phases.count(phase)} {phase}" for phase in sorted(set(phases))) or "none"
