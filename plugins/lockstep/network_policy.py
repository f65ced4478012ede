"""A network policy for one gang: its pods hear each other, on the port of their TF_CONFIG, and nobody else. Pure.

TensorFlow's gRPC is neither encrypted nor authenticated, so this is what keeps other pods of the namespace out, other
gangs' included. Policies only ever add to what is allowed: one that lets all gangs in makes this one idle.
"""

from __future__ import annotations

from collections.abc import Mapping

from lockstep.gang_object import GangObject
from lockstep.names import LABEL_GANG, GangId
from lockstep.training_spec import TrainingSpec


def network_policy(spec: TrainingSpec, gang: GangId, name: str, labels: Mapping[str, str]) -> GangObject | None:
    """The policy called `name`; None where none is asked for, or where pods share their machine's network."""
    if not spec.network_policy or spec.rendezvous == "loopback":
        return None
    own_pods = {"matchLabels": {LABEL_GANG: gang.name}}
    return GangObject(
        plural="networkpolicies",
        manifest={
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": {"name": name, "namespace": spec.namespace, "labels": dict(labels)},
            "spec": {
                "podSelector": own_pods,
                "policyTypes": ["Ingress"],
                "ingress": [
                    {"from": [{"podSelector": own_pods}], "ports": [{"protocol": "TCP", "port": spec.port}]},
                ],
            },
        },
    )
