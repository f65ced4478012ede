"""The second measurement: how long after a pod has failed the contender does something about it.

What Lockstep does first is to end the rest of the gang, so its notice is the first deletion that it asks for; the
others' is their trigger's event. A gang and a Job fail but once, so as many of them run side by side as shall fail.
"""

from __future__ import annotations

import asyncio
import math
import random
from typing import Any

from bench.arena import PATIENCE_S, Arena, arena, told
from bench.pod_fate import end_pod
from bench.target import Target

POLLED_EVERY_S = {"gang": 1.0, "pod_operators": 2.0, "job_operator": 10.0}
"""Pods fail at any moment between two polls; a gang is not polled."""


async def measure_failures(target: Target, contender: str, pods: int, failures: int, most_pods: int) -> list[float]:
    """Seconds from failure to notice, of so many failures, or of as many as `most_pods` pods at once allow."""
    of_each = pods if contender == "pod_operators" else 1
    copies = min(math.ceil(failures / of_each), max(1, most_pods // pods))
    async with arena(target, contender) as at:
        await at.watch(await at.launch(pods, copies=copies))
        await at.settled(pods * copies)
        notices, failed = [], set[str]()
        for _ in range(min(failures, copies * of_each)):
            notices.append(await _notice(at, contender, failed))
        return notices


async def _notice(at: Arena, contender: str, failed: set[str]) -> float:
    """Let a pod fail whose gang or Job has not `failed` yet."""
    await asyncio.sleep(random.random() * POLLED_EVERY_S[contender])  # noqa: S311 - no secret
    running = (at.board.pods[name] for name in at.board.of_phase("Running"))
    pod = random.choice([each for each in running if _owner(each) not in failed])  # noqa: S311
    failed.add(_owner(pod))
    name = pod["metadata"]["name"]
    before = at.proxy.counts.now()
    at.proxy.end_log(name)
    failed_at = await end_pod(at.api, at.board, name, exit_code=1)
    event = await told(at.watcher, PATIENCE_S)
    deletions = at.proxy.counts.since(before).deletions
    return (deletions[0] if contender == "gang" else event["at"]) - failed_at


def _owner(pod: Any) -> str:
    """What fails with the pod: the gang's Service, the Job, or the pod alone."""
    owners = pod["metadata"].get("ownerReferences") or [pod["metadata"]]
    return str(owners[0]["uid"])
