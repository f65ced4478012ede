"""Whether a pod fits on the one node, and what Kubernetes says when it does not. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lockstep.local.kube.api_object import Json
from lockstep.local.kube.pod_status import is_terminal
from lockstep.local.kube.quantity import Amounts, amount, requests_of, total


@dataclass(frozen=True, kw_only=True, slots=True)
class Fits:
    """The pod can be bound to the node."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Gated:
    """The pod waits for somebody to take its scheduling gates away."""

    message: str = "Scheduling is blocked due to non-empty scheduling gates"


@dataclass(frozen=True, kw_only=True, slots=True)
class Unschedulable:
    """The node does not have what the pod asks for."""

    message: str


Verdict = Fits | Gated | Unschedulable


def verdict(pod: Json, node: Json, bound: Iterable[Json]) -> Verdict:
    """Say whether `pod` may run on `node` beside the pods that are bound to it."""
    if pod["spec"].get("schedulingGates"):
        return Gated()
    if not (pod["spec"].get("nodeSelector") or {}).items() <= node["metadata"]["labels"].items():
        return Unschedulable(message=_sentence(["node(s) didn't match Pod's node affinity/selector"]))
    taken = [pod_requests(each) for each in bound if not is_terminal(each)]
    allocatable = {name: amount(value) for name, value in node["status"]["allocatable"].items()}
    if lacking := _lacking(pod_requests(pod), total(taken), allocatable):
        return Unschedulable(message=_sentence(lacking))
    return Fits()


def pod_requests(pod: Json) -> Amounts:
    return requests_of(pod) | {"pods": amount("1")}


def _lacking(asked: Amounts, taken: Amounts, allocatable: Amounts) -> list[str]:
    zero = amount("0")
    short = [
        name
        for name, value in asked.items()
        if value > 0 and taken.get(name, zero) + value > allocatable.get(name, zero)
    ]
    return ["Too many pods" if name == "pods" else f"Insufficient {name}" for name in sorted(short)]


def _sentence(reasons: list[str]) -> str:
    listed = ", ".join(f"1 {reason}" for reason in reasons)
    return (
        f"0/1 nodes are available: {listed}. preemption: 0/1 nodes are available: "
        "1 Preemption is not helpful for scheduling."
    )
