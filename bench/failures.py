"""The second measurement: how long after a pod has failed the contender does something about it.

What Lockstep does first is to end the rest of the gang, so its notice is the first deletion that it asks for; the
others' is their trigger's event. A gang and a Job fail but once, and are launched again for each failure.
"""

from __future__ import annotations

import asyncio
import random

from bench.arena import PATIENCE_S, Arena, arena, told
from bench.pod_fate import end_pod
from bench.target import Target

POLLED_EVERY_S = {"gang": 1.0, "pod_operators": 2.0, "job_operator": 10.0}
"""Pods fail at any moment between two polls."""


async def measure_failures(target: Target, contender: str, pods: int, failures: int, most_pods: int) -> list[float]:
    """Seconds from failure to notice, of so many failures, or of as many as `most_pods` launched pods allow."""
    of_one_launch = pods if contender == "pod_operators" else 1
    launches = max(1, min(-(-failures // of_one_launch), most_pods // pods))
    async with arena(target, contender) as at:
        notices: list[float] = []
        for number in range(launches):
            wanted = min(of_one_launch, failures - len(notices))
            notices += await _notices(at, contender, pods, wanted, first=number * pods)
        return notices


async def _notices(at: Arena, contender: str, pods: int, failures: int, first: int) -> list[float]:
    """Of one launch, whose pods are gone at the end."""
    launched = await at.launch(pods)
    await at.watch(launched, first=first)
    await at.all_run(pods)
    await asyncio.sleep(POLLED_EVERY_S[contender])
    notices = [await _notice(at, contender) for _ in range(failures)]
    await at.cleared()
    return notices


async def _notice(at: Arena, contender: str) -> float:
    await asyncio.sleep(random.random() * POLLED_EVERY_S[contender])  # noqa: S311 - no secret
    before = at.proxy.counts.now()
    pod = random.choice(at.board.of_phase("Running"))  # noqa: S311
    at.proxy.end_log(pod)
    failed_at = await end_pod(at.api, at.board, pod, exit_code=1)
    event = await told(at.watcher, PATIENCE_S)
    deletions = at.proxy.counts.since(before).deletions
    return (deletions[0] if contender == "gang" else event["at"]) - failed_at
