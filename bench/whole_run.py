"""The first measurement: start N pods, watch them run for a while, let them all succeed, and clean up."""

from __future__ import annotations

import asyncio
from typing import Any

from bench.arena import PATIENCE_S, Arena, arena, told
from bench.figures import RunFigures
from bench.pod_fate import succeed
from bench.target import Target


async def measure_run(target: Target, contender: str, pods: int, seconds: float) -> RunFigures:
    async with arena(target, contender) as at:
        idle_bytes, idle_cpu_s = at.watcher.rss_bytes(), at.watcher.cpu_s()
        at.watcher.highest_rss_bytes = idle_bytes
        launched = await at.launch(pods)
        await at.watch(launched)
        await at.settled(pods)

        before, cpu_before_s = at.proxy.counts.now(), at.watcher.cpu_s()
        await asyncio.sleep(seconds)
        ran, run_cpu_s = at.proxy.counts.since(before), at.watcher.cpu_s() - cpu_before_s

        await _finish(at, len(launched.triggers))
        return RunFigures(
            created_s=launched.created_s,
            start_requests=before.requests,
            run_requests=ran.requests,
            finish_requests=at.proxy.counts.since(before).requests - ran.requests,
            bytes_read=at.proxy.counts.bytes_read,
            ran_s=seconds,
            run_cpu_s=run_cpu_s,
            watching_cpu_s=at.watcher.cpu_s() - idle_cpu_s,
            memory_bytes=at.watcher.highest_rss_bytes - idle_bytes,
        )


async def _finish(at: Arena, triggers: int) -> None:
    for pod in at.board.pods:
        at.proxy.end_log(pod)
    await succeed(at.api, at.board, list(at.board.pods))
    events: dict[int, Any] = {}
    while len(events) < triggers:
        told_event = await told(at.watcher, PATIENCE_S)
        events[told_event["index"]] = told_event["event"]
    at.creator.ask(finish=[events[index] for index in range(triggers)])
    await told(at.creator)
