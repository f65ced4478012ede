"""A gang of three hundred: created at once, seen by one watch, and gone again. The nodes are kwok's."""

from __future__ import annotations

import time

import pytest

from tests.cluster.gangs import Gangs
from tests.cluster.kwok import FAKE_NODE

WORKERS = 300


@pytest.mark.usefixtures("kwok_nodes")
async def test_three_hundred_pods_start_and_go(real_gangs: Gangs) -> None:
    """Each is created exactly once, all are seen running, and deleting the gang leaves none."""
    plan = real_gangs.plan(
        workers=WORKERS,
        resources={"cpu": "100m", "memory": "64Mi"},
        pod_options={
            "node_selector": {"type": "kwok"},
            "tolerations": [{"key": FAKE_NODE, "operator": "Exists", "effect": "NoSchedule"}],
        },
    )
    began = time.monotonic()
    async with real_gangs.cluster.connected():
        running = await real_gangs.launch(plan)
        created_s = time.monotonic() - began
        pods = await real_gangs.started(plan)
        ran_s = time.monotonic() - began
        assert sorted(pod.uid for pod in pods) == sorted(running.uids)
        await real_gangs.cluster.delete(plan.gang, 1)
        await real_gangs.gone(plan)
        print(f"created in {created_s:.1f} s, all ran at {ran_s:.1f} s, gone at {time.monotonic() - began:.1f} s")
