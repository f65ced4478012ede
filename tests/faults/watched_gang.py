"""A gang under the product's own launch and supervision: how a test waits for its start, its words and its end."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest

from lockstep.errors import GangEnded
from lockstep.kubernetes_cluster import KubernetesCluster
from lockstep.pod_event import PodsListed
from lockstep.pod_plan import GangPlan
from lockstep.running_gang import RunningGang
from lockstep.supervisor import launch, supervise
from lockstep.system_clock import SystemClock

CLOCK = SystemClock()


async def launched(plan: GangPlan, cluster: KubernetesCluster) -> RunningGang:
    """Launched, and every container runs."""
    running = await launch(plan, cluster, CLOCK)
    started: set[int] = set()
    async with asyncio.timeout(60):
        async for event in cluster.events(running.gang):
            pods = event.pods if isinstance(event, PodsListed) else (event.pod,)
            started |= {pod.rank for pod in pods if pod.started}
            if len(started) == running.workers:
                break
    return running


async def ended(running: RunningGang, cluster: KubernetesCluster) -> GangEnded:
    with pytest.raises(GangEnded) as caught:
        async with asyncio.timeout(60):
            await supervise(running, cluster, CLOCK)
    assert "\n" not in str(caught.value)
    assert not hasattr(caught.value, "__notes__")  # the clean-up went well
    return caught.value


async def said(words: str, pod: str, cluster: KubernetesCluster) -> None:
    async with asyncio.timeout(30), aclosing(cluster.log(pod, None)) as log:
        async for line in log:
            if line.text == words:
                return
