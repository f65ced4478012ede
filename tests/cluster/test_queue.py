"""A gang in a queue: Kueue's own controller holds it whole while the quota is taken, and lets it start whole."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from lockstep.pod_plan import GangPlan
from tests.cluster.administrator import Administrator
from tests.cluster.gangs import Gangs
from tests.cluster.installation import OBJECTS, Installation, rendered


@pytest.fixture
def queue(admin: Administrator, installation: Installation) -> Iterator[str]:
    """The queue of docker/kubernetes/kueue, with a quota of one CPU: room for one gang of two workers of 400m."""
    name = f"queue-{installation.namespace}"
    objects = [_with_quota(_renamed(each, name, installation.namespace)) for each in rendered(admin, OBJECTS / "kueue")]
    admin.apply(*objects)
    yield name
    installation.kubectl("delete", "localqueue", name)
    for kind in ("clusterqueue", "resourceflavor"):
        admin.kubectl("delete", kind, name, "--wait=false")


async def test_a_gang_waits_for_quota_and_starts_when_it_is_free(
    real_gangs: Gangs, installation: Installation, queue: str
) -> None:
    first, second = (queued(real_gangs, queue, group) for group in ("first", "second"))
    async with real_gangs.cluster.connected():
        await real_gangs.launch(first)
        await real_gangs.started(first)
        await real_gangs.launch(second)
        await real_gangs.seen(second, lambda pods: len(pods) == 2 and all("gates" in pod.unscheduled for pod in pods))
        (waiting,) = [each for each in workloads(installation) if not admitted(each)]
        assert waiting["metadata"]["name"] == "second"
        await real_gangs.cluster.delete(first.gang, 1)
        await real_gangs.started(second)
        assert [each["metadata"]["name"] for each in workloads(installation) if admitted(each)] == ["second"]
        await real_gangs.cluster.delete(second.gang, 1)
        await real_gangs.gone(second)


def queued(real_gangs: Gangs, queue: str, group: str) -> GangPlan:
    """A gang that carries Kueue's labels for groups of plain pods."""
    labels = {"kueue.x-k8s.io/queue-name": queue, "kueue.x-k8s.io/pod-group-name": group}
    annotations = {
        "kueue.x-k8s.io/pod-group-total-count": "2",
        # Or Kueue waits for a replacement of each pod that failed, and keeps its finalizer on the group until then.
        "kueue.x-k8s.io/retriable-in-group": "false",
    }
    options: dict[str, Any] = {"labels": labels, "annotations": annotations}
    return real_gangs.plan(resources={"cpu": "400m", "memory": "64Mi"}, pod_options=options)


def workloads(installation: Installation) -> list[dict[str, Any]]:
    listed = installation.administrator.get("workloads.kueue.x-k8s.io", f"--namespace={installation.namespace}")
    return [each for each in listed["items"] if not each["metadata"].get("deletionTimestamp")]


def admitted(workload: dict[str, Any]) -> bool:
    conditions = workload.get("status", {}).get("conditions", [])
    return any(each["type"] == "Admitted" and each["status"] == "True" for each in conditions)


def _renamed(given: dict[str, Any], name: str, namespace: str) -> dict[str, Any]:
    metadata = {**given["metadata"], "name": name}
    if "namespace" in metadata:
        metadata["namespace"] = namespace
    spec = dict(given.get("spec", {}))
    if given["kind"] == "LocalQueue":
        spec["clusterQueue"] = name
    if given["kind"] == "ClusterQueue":
        spec["namespaceSelector"] = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
        spec["resourceGroups"][0]["flavors"][0]["name"] = name
    return {**given, "metadata": metadata, "spec": spec}


def _with_quota(given: dict[str, Any]) -> dict[str, Any]:
    for group in given["spec"].get("resourceGroups", ()):
        for resource in group["flavors"][0]["resources"]:
            if resource["name"] == "cpu":
                resource["nominalQuota"] = "1"
    return given
