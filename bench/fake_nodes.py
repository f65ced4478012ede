"""Nodes for kwok to play, there as long as the benchmark runs, and for its pods only."""

from __future__ import annotations

import math
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

from bench.api import MERGE_PATCH, SERVER_SIDE_APPLY, Api

FAKE_NODE = "kwok.x-k8s.io/node"
POOL = "lockstep-bench"
"""Label of the nodes and of the pods that run on them."""
PODS_PER_NODE = 250
COMPLETES_JOBS = "/apis/kwok.x-k8s.io/v1alpha1/stages/pod-complete"
NOT_OURS = {"key": f'.metadata.labels["{POOL}"]', "operator": "DoesNotExist"}


async def kwok_is_there(api: Api) -> bool:
    return await api.ask("GET", "/apis/kwok.x-k8s.io/v1alpha1/stages") is not None


def placement() -> dict[str, Any]:
    return {
        "node_selector": {POOL: "node"},
        "tolerations": [{"key": FAKE_NODE, "operator": "Exists", "effect": "NoSchedule"}],
    }


@asynccontextmanager
async def fake_nodes(api: Api, pods: int) -> AsyncIterator[None]:
    """Room for so many pods, which run until they are ended: kwok would end those of a Job at once."""
    nodes = list(_nodes(math.ceil(pods / PODS_PER_NODE)))
    for node in nodes:
        path = f"/api/v1/nodes/{node['metadata']['name']}?fieldManager={POOL}&force=true"
        await api.ask("PATCH", path, node, SERVER_SIDE_APPLY)
    await _leave_our_jobs_alone(api)
    try:
        yield
    finally:
        for node in nodes:
            await api.ask("DELETE", f"/api/v1/nodes/{node['metadata']['name']}")


async def _leave_our_jobs_alone(api: Api) -> None:
    """This stays: it concerns no pod but the benchmark's."""
    stage = await api.ask("GET", COMPLETES_JOBS)
    if stage is None or NOT_OURS in stage["spec"]["selector"]["matchExpressions"]:
        return
    expressions = [*stage["spec"]["selector"]["matchExpressions"], NOT_OURS]
    await api.ask("PATCH", COMPLETES_JOBS, {"spec": {"selector": {"matchExpressions": expressions}}}, MERGE_PATCH)


def _nodes(count: int) -> Iterator[dict[str, Any]]:
    resources = {"cpu": "1000", "memory": "1000Gi", "pods": str(PODS_PER_NODE)}
    for _ in range(count):
        name = f"bench-{uuid.uuid4().hex[:8]}"
        yield {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": name,
                "annotations": {FAKE_NODE: "fake"},
                "labels": {POOL: "node", "kubernetes.io/hostname": name},
            },
            "spec": {"taints": [{"key": FAKE_NODE, "value": "fake", "effect": "NoSchedule"}]},
            "status": {"allocatable": resources, "capacity": resources},
        }
