"""How pods end here: their status is patched, as a kubelet would. Nothing runs on kwok's nodes that could end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from bench.api import MERGE_PATCH, Api
from bench.pod_board import PodBoard

AT_ONCE = 32


async def end_pod(api: Api, board: PodBoard, name: str, *, exit_code: int) -> float:
    """End the only container of a pod; returns when the API server has stored it (seconds since the epoch)."""
    pod = board.pods[name]
    path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{name}/status"
    await api.ask("PATCH", path, {"status": _ended(pod["status"], exit_code)}, MERGE_PATCH)
    return time.time()


async def succeed(api: Api, board: PodBoard, names: Iterable[str]) -> None:
    at_once = asyncio.Semaphore(AT_ONCE)

    async def end(name: str) -> None:
        async with at_once:
            await end_pod(api, board, name, exit_code=0)

    async with asyncio.TaskGroup() as group:
        for name in names:
            group.create_task(end(name))


def _ended(status: Any, exit_code: int) -> dict[str, Any]:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    container = status["containerStatuses"][0]
    started_at = container["state"]["running"]["startedAt"]
    terminated = {
        "exitCode": exit_code,
        "reason": "Error" if exit_code else "Completed",
        "startedAt": started_at,
        "finishedAt": now,
    }
    ended = container | {"ready": False, "started": False, "state": {"terminated": terminated}}
    return {"phase": "Failed" if exit_code else "Succeeded", "containerStatuses": [ended]}
