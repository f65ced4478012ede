"""A namespace, a counting proxy and the processes of one contender: made anew for each measurement, gone after it."""

from __future__ import annotations

import asyncio
import json
import tempfile
import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.api import Api
from bench.counting_proxy import CountingProxy
from bench.fake_nodes import POOL
from bench.measured_process import MeasuredProcess, started
from bench.pod_board import PodBoard
from bench.target import Target

PATIENCE_S = 300.0
"""How long any one step may take before the contender is given up."""
SETTLE_S = 10.0
"""From the moment at which all pods run to the moment from which on it counts as running."""


class GivenUp(Exception):
    """The contender could not do what was asked; the message says why."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Launched:
    """`created_s` is from the order to the last pod that was stored."""

    triggers: list[Any]
    created_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Arena:
    target: Target
    namespace: str
    proxy: CountingProxy
    board: PodBoard
    creator: MeasuredProcess
    watcher: MeasuredProcess

    @property
    def api(self) -> Api:
        return self.target.api

    async def launch(self, pods: int, *, copies: int = 1) -> Launched:
        """Have the contender create its pods, so many times; returns when all of them are there."""
        self.creator.ask(launch=[self._work(pods) for _ in range(copies)])
        answer = await told(self.creator)
        created_at = await self.board.until(lambda board: len(board.pods) >= pods * copies, PATIENCE_S)
        created_s = max(created_at, answer["ended"]) - answer["began"]
        return Launched(triggers=answer["triggers"], created_s=created_s)

    def _work(self, pods: int) -> dict[str, Any]:
        return {
            "pods": pods,
            "namespace": self.namespace,
            "run": uuid.uuid4().hex[:8],
            "labels": {POOL: "pod"},
            "placement": self.target.placement,
        }

    async def watch(self, launched: Launched) -> None:
        self.watcher.ask(watch=launched.triggers)

    async def settled(self, pods: int) -> None:
        """Return once all pods run and whoever watches has had the time to take that in."""
        await self.board.until(lambda board: len(board.of_phase("Running")) >= pods, PATIENCE_S)
        await asyncio.sleep(SETTLE_S)


async def told(process: MeasuredProcess, within_s: float = PATIENCE_S) -> dict[str, Any]:
    """The next answer. Raises GivenUp if it says that something failed, or if there is none."""
    try:
        answer = await process.answer(within_s)
    except TimeoutError:
        raise GivenUp(f"no answer within {within_s:g} s") from None
    if "failed" in answer:
        raise GivenUp(answer["failed"])
    return answer


@asynccontextmanager
async def arena(target: Target, contender: str) -> AsyncIterator[Arena]:
    """Two fresh processes of a contender, which know of no cluster but the proxy."""
    namespace = f"lockstep-bench-{uuid.uuid4().hex[:8]}"
    proxy, board = CountingProxy(target.api), PodBoard()
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="lockstep-bench-")))
        await stack.enter_async_context(_namespace(target.api, namespace))
        await stack.enter_async_context(board.following(target.api, namespace))
        environment = _environment(folder, await stack.enter_async_context(proxy.serving(folder)), namespace)
        creator, watcher = [
            await stack.enter_async_context(started(module, *given, environment=environment, log=folder / module))
            for module, given in (("bench.creator", (contender,)), ("bench.watcher", ()))
        ]
        await asyncio.gather(told(creator), told(watcher))
        yield Arena(target=target, namespace=namespace, proxy=proxy, board=board, creator=creator, watcher=watcher)


def _environment(folder: Path, kubeconfig: Path, namespace: str) -> dict[str, str]:
    extra = {"kube_config_path": str(kubeconfig), "namespace": namespace}
    return {
        "AIRFLOW_HOME": str(folder / "airflow"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW_CONN_LOCKSTEP_BENCH": json.dumps({"conn_type": "kubernetes", "extra": extra}),
    }


@asynccontextmanager
async def _namespace(api: Api, name: str) -> AsyncIterator[None]:
    """With the service account that pods need, which a controller makes soon after the namespace."""
    path = f"/api/v1/namespaces/{name}"
    await api.ask("POST", "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    try:
        await _until(api, f"{path}/serviceaccounts/default", there=True)
        yield
    finally:
        await api.ask("DELETE", path)
        await _until(api, path, there=False)


async def _until(api: Api, path: str, *, there: bool) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while (await api.ask("GET", path) is not None) != there:  # noqa: ASYNC110 - of another process
            await asyncio.sleep(0.2)
