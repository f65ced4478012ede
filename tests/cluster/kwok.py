"""kwok as a host process: nodes that exist in name only, on which hundreds of pods run at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.cluster.component import Component
from tests.cluster.control_plane import ADMINISTRATORS, ControlPlane
from tests.cluster.definitions import define
from tests.cluster.http_probe import answers
from tests.cluster.objects import apply_files

FAKE_NODE = "kwok.x-k8s.io/node"
PODS_PER_NODE = 110


def kwok(plane: ControlPlane) -> Component:
    port = plane.layout.ports["kwok"]
    return Component(
        name="kwok",
        argv=(
            plane.programs.program("kwok"),
            f"--kubeconfig={plane.kubeconfig('kwok', user='lockstep-kwok', group=ADMINISTRATORS)}",
            f"--server-address=127.0.0.1:{port}",
            "--manage-all-nodes=false",
            f"--manage-nodes-with-annotation-selector={FAKE_NODE}=fake",
            "--node-lease-duration-seconds=40",
            "--enable-crds=Stage",
        ),
        ready=answers(f"http://127.0.0.1:{port}/healthz"),
    )


def define_kwok(plane: ControlPlane) -> None:
    """Stages: what they are, and those through which its nodes and pods go."""
    define(plane, plane.programs.manifests("kwok", "crd") / "kwok.x-k8s.io_stages.yaml")
    stages = (plane.programs.manifests("kwok", stages) for stages in ("stage-node", "stage-heartbeat", "stage-pod"))
    apply_files(plane.layout, plane.programs, *stages)


def fake_nodes(count: int) -> Iterator[dict[str, Any]]:
    """Nodes for kwok to play. The taint keeps away every pod that does not ask for them."""
    resources = {"cpu": "64", "memory": "256Gi", "pods": str(PODS_PER_NODE)}
    for number in range(count):
        yield {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": f"kwok-{number}",
                "annotations": {FAKE_NODE: "fake"},
                "labels": {"type": "kwok", "kubernetes.io/hostname": f"kwok-{number}"},
            },
            "spec": {"taints": [{"key": FAKE_NODE, "value": "fake", "effect": "NoSchedule"}]},
            "status": {"allocatable": resources, "capacity": resources},
        }
