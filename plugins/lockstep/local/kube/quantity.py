"""Amounts of cpu, memory and other resources, and the sums a scheduler makes of them."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal

from kubernetes.utils.quantity import parse_quantity

from lockstep.local.kube.api_object import Json

Amounts = dict[str, Decimal]


def amount(quantity: str) -> Decimal:
    """Return the number that a quantity such as `500m` or `8Gi` stands for; raises ValueError."""
    return Decimal(parse_quantity(quantity))


def requests_of(pod: Json) -> Amounts:
    """Return what the pod asks for; a limit without a request is a request too, by defaulting."""
    return total(
        {name: amount(value) for name, value in container.get("resources", {}).get("requests", {}).items()}
        for container in pod["spec"]["containers"]
    )


def memory_limit_bytes(pod: Json) -> int | None:
    limit = pod["spec"]["containers"][0].get("resources", {}).get("limits", {}).get("memory")
    return None if limit is None else int(amount(limit))


def total(amounts: Iterable[Amounts]) -> Amounts:
    summed: Amounts = {}
    for each in amounts:
        for name, value in each.items():
            summed[name] = summed.get(name, Decimal(0)) + value
    return summed
