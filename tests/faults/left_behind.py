"""What there still is of a gang, in the API and on the machine."""

from __future__ import annotations

from kubernetes.client import CoreV1Api

from lockstep.names import gang_selector
from tests.e2e.waiting import awaited
from tests.faults.obedient_gang import ObedientGang

GOING_S = 15.0


def left_behind(core: CoreV1Api, gang: ObedientGang) -> list[str]:
    """Names of its pods and its Service, and its processes by rank."""
    selector = gang_selector(gang.gang)
    pods = core.list_namespaced_pod("default", label_selector=selector).items
    services = core.list_namespaced_service("default", label_selector=selector).items
    return [thing.metadata.name for thing in (*pods, *services)] + [f"process {rank}" for rank in gang.processes()]


def await_nothing_left(core: CoreV1Api, gang: ObedientGang) -> None:
    """Pods whose deletion is asked for are given the time that they were given. Removes what is left, and says so."""
    try:
        awaited(lambda: not left_behind(core, gang), what=f"the end of {gang.gang}", timeout_s=GOING_S)
    finally:
        selector = gang_selector(gang.gang)
        core.delete_collection_namespaced_pod("default", label_selector=selector, grace_period_seconds=0)
        core.delete_collection_namespaced_service("default", label_selector=selector)


def uids(core: CoreV1Api, gang: ObedientGang) -> list[str]:
    """UIDs of its pods, by rank."""
    pods = core.list_namespaced_pod("default", label_selector=gang_selector(gang.gang)).items
    return [pod.metadata.uid for pod in sorted(pods, key=lambda pod: int(pod.metadata.labels["lockstep/rank"]))]
