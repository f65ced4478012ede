"""A queue of Kueue's, as docker/kubernetes/kueue makes it, for one test: with room for one gang of two workers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tests.cluster.installation import OBJECTS, Installation, rendered
from tests.cluster.waiting import wait_until

QUOTA_CPU = "1"
WORKER_CPU = "400m"
WAIT_S = 60.0


@dataclass(frozen=True, kw_only=True, slots=True)
class LocalQueue:
    """`high` is a priority class of Kueue's, above that of a gang that names none."""

    name: str
    high: str
    installation: Installation

    def workloads(self) -> list[dict[str, Any]]:
        listed = self.installation.administrator.get(
            "workloads.kueue.x-k8s.io", f"--namespace={self.installation.namespace}"
        )
        found: list[dict[str, Any]] = listed["items"]
        return found

    def admitted(self) -> set[str]:
        """The names of the groups that hold quota."""
        return {
            each["metadata"]["name"]
            for each in self.workloads()
            if _is(each, "QuotaReserved") and not _is(each, "Finished")
        }

    def used_cpu(self) -> str:
        status = self.installation.administrator.get("clusterqueue", self.name)["status"]
        (usage,) = (each for each in status["flavorsReservation"][0]["resources"] if each["name"] == "cpu")
        return str(usage["total"])

    def wait_until_empty(self) -> None:
        """Until no group is left, nor a finalizer that would keep one, and the whole quota is free."""
        wait_until(lambda: not self.workloads(), what="the groups to be gone", timeout_s=WAIT_S)
        wait_until(lambda: self.used_cpu() == "0", what="the quota to be free", timeout_s=WAIT_S)


@contextmanager
def local_queue(installation: Installation) -> Iterator[LocalQueue]:
    administrator, name = installation.administrator, f"queue-{installation.namespace}"
    priority = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "WorkloadPriorityClass",
        "metadata": {"name": name},
        "value": 1000,
    }
    objects = [_with_quota(_renamed(each, name, installation.namespace)) for each in _published(installation)]
    administrator.apply(*objects, priority)
    try:
        yield LocalQueue(name=name, high=name, installation=installation)
    finally:
        installation.kubectl("delete", "localqueue", name)
        for kind in ("clusterqueue", "resourceflavor", "workloadpriorityclass"):
            administrator.kubectl("delete", kind, name, "--wait=false")


def _published(installation: Installation) -> list[dict[str, Any]]:
    return rendered(installation.administrator, OBJECTS / "kueue")


def _is(workload: dict[str, Any], condition: str) -> bool:
    conditions = workload.get("status", {}).get("conditions", [])
    return any(each["type"] == condition and each["status"] == "True" for each in conditions)


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
                resource["nominalQuota"] = QUOTA_CPU
    return given
