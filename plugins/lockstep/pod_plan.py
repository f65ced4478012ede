"""spec -> GangPlan: the Service and the N worker pods, as values. Pure: no clock, no network.

A plan can be printed, compared and tested; what KubernetesPodOperator makes of it is `worker_pod.py`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import TypeAdapter

from lockstep import names
from lockstep.gang_object import GangObject
from lockstep.gang_scheduling import Group, membership
from lockstep.names import GangId
from lockstep.network_policy import network_policy
from lockstep.parsing import to_json
from lockstep.roles import Member
from lockstep.tf_config import tf_config
from lockstep.training_spec import TrainingSpec


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkerPod:
    """One member of the gang: rank 0 is the chief. `address` is where its peers reach it, "host:port"."""

    rank: int
    member: Member
    name: str
    address: str
    labels: dict[str, str]
    annotations: dict[str, str]
    env: dict[str, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class GangPlan:
    """One attempt of a gang: a headless Service called `service`, which owns the `objects` and the `workers`.

    `pod_spec` is what every pod's spec has beyond what KubernetesPodOperator puts there.
    """

    gang: GangId
    attempt: int
    spec: TrainingSpec
    service: str
    labels: dict[str, str]
    workers: tuple[WorkerPod, ...]
    objects: tuple[GangObject, ...] = ()
    pod_spec: dict[str, Any] = field(default_factory=dict)


def plan_gang(spec: TrainingSpec, gang: GangId, *, attempt: int, loopback_ports: Sequence[int] = ()) -> GangPlan:
    """Turn a spec into the pods that will run it; `loopback_ports` (one a pod) serve `rendezvous: loopback` only."""
    members, addresses = spec.members, _addresses(spec, gang, attempt, loopback_ports)
    labels = names.gang_labels(gang) | {names.LABEL_ATTEMPT: str(attempt)}
    annotations = {names.ANNOTATION_RUN: str(gang), names.ANNOTATION_SPEC: spec_digest(spec)}
    group = membership(spec, Group(name=names.group_name(gang, attempt), size=len(members), labels=labels))
    policy = network_policy(spec, gang, names.group_name(gang, attempt), labels)
    return GangPlan(
        gang=gang,
        attempt=attempt,
        spec=spec,
        service=names.service_name(gang),
        labels=labels,
        workers=tuple(
            WorkerPod(
                rank=rank,
                member=member,
                name=names.worker_name(gang, attempt, rank),
                address=addresses[rank],
                labels=labels | _place(rank, member) | group.labels,
                annotations=annotations | group.annotations,
                env=spec.env | _contract_env(spec, attempt, rank) | _tf_config_env(members, addresses, rank),
            )
            for rank, member in enumerate(members)
        ),
        objects=tuple(thing for thing in (policy, group.pod_group) if thing is not None),
        pod_spec=group.pod_spec,
    )


def replan(plan: GangPlan, attempt: int) -> GangPlan:
    """The same gang under another attempt's names."""
    loopback = plan.spec.rendezvous == "loopback"
    ports = [int(worker.address.rpartition(":")[2]) for worker in plan.workers] if loopback else ()
    return plan_gang(plan.spec, plan.gang, attempt=attempt, loopback_ports=ports)


def spec_digest(spec: TrainingSpec) -> str:
    """What two launches must have in common for the second to take over the pods of the first."""
    content = TypeAdapter(TrainingSpec).dump_python(spec, mode="json", fallback=_plain)
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _plain(value: Any) -> Any:
    """`pod_options` hold objects of the Kubernetes client, and of KubernetesPodOperator's provider."""
    return value.to_dict() if hasattr(value, "to_dict") else vars(value)


def _addresses(spec: TrainingSpec, gang: GangId, attempt: int, loopback_ports: Sequence[int]) -> tuple[str, ...]:
    if spec.rendezvous == "loopback":
        return tuple(f"127.0.0.1:{port}" for _, port in zip(spec.members, loopback_ports, strict=True))
    hosts = (names.worker_host(gang, attempt, rank, spec.namespace) for rank in range(len(spec.members)))
    return tuple(f"{host}:{spec.port}" for host in hosts)


def _place(rank: int, member: Member) -> dict[str, str]:
    return {
        names.LABEL_RANK: str(rank),
        names.LABEL_ROLE: member.role,
        names.LABEL_ROLE_INDEX: str(member.index),
    }


def _contract_env(spec: TrainingSpec, attempt: int, rank: int) -> dict[str, str]:
    return {
        names.ENV_CONTRACT: names.CONTRACT_VERSION,
        names.ENV_RUN_DIRECTORY: spec.run_directory,
        names.ENV_ATTEMPT: str(attempt),
        names.ENV_RANK: str(rank),
        names.ENV_WORKERS: str(spec.workers),
        names.ENV_RENDEZVOUS_TIMEOUT: f"{spec.timeouts.rendezvous_s:g}",
        names.ENV_STALL_TIMEOUT: f"{spec.timeouts.stall_s:g}",
        names.ENV_TRAINING: json.dumps(to_json(spec.training), sort_keys=True),
    }


def _tf_config_env(members: Sequence[Member], addresses: Sequence[str], rank: int) -> dict[str, str]:
    config = tf_config(members, addresses, rank)
    return {} if config is None else {names.ENV_TF_CONFIG: config}
