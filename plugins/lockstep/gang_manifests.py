"""GangPlan -> the objects of the Kubernetes API, in the order in which they are created, and as text for `kubectl`.

Only the owner's UID is not known beforehand: it is the Service's, and Kubernetes gives it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

import yaml

from lockstep.pod_plan import GangPlan
from lockstep.worker_pod import owned, pod_manifest, service_manifest

OWNER_UID = "00000000-0000-0000-0000-000000000000"
"""Stands where Kubernetes would put the Service's UID."""

_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9./_-]{2,}")


def gang_manifests(plan: GangPlan) -> tuple[dict[str, Any], ...]:
    """The Service, the further objects, and the pods by rank."""
    return service_manifest(plan), *object_manifests(plan), *pod_manifests(plan)


def object_manifests(plan: GangPlan) -> tuple[dict[str, Any], ...]:
    return tuple(owned(thing.manifest, plan, OWNER_UID) for thing in plan.objects)


def pod_manifests(plan: GangPlan) -> tuple[dict[str, Any], ...]:
    return tuple(pod_manifest(plan, worker, OWNER_UID) for worker in plan.workers)


def as_yaml(manifests: Iterable[dict[str, Any]]) -> str:
    """One document for each."""
    return yaml.dump_all(manifests, Dumper=_Dumper, sort_keys=False, explicit_start=True, width=float("inf"))


def as_json(manifests: Sequence[dict[str, Any]]) -> str:
    """One List, as `kubectl get` gives it and `kubectl apply` takes it."""
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(manifests)}, indent=2) + "\n"


class _Dumper(yaml.SafeDumper):
    """Quotes what another reader of YAML might take for a number or a truth value: `1e-3` is text for this one."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=None if _PLAIN.fullmatch(text) else '"')


_Dumper.add_representer(str, _text)
