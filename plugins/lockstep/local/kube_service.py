"""The stack's Kubernetes API server as a service, and the images that its node knows."""

from __future__ import annotations

import json
from collections.abc import Mapping

from lockstep.local.layout import StackLayout
from lockstep.local.ports import LOOPBACK
from lockstep.local.probe import KubernetesProbe
from lockstep.local.service import MARKER, Service, base_environment
from lockstep.local.storage_service import tensorflow_environment

KUBE = "kubernetes"
TRAINER_IMAGE = "lockstep/trainer:local"


def kube_service(layout: StackLayout, ports: Mapping[str, int]) -> Service:
    return Service(
        name=KUBE,
        argv=(
            *(str(layout.programs / "python"), "-m", "lockstep.local.kube"),
            *("--state", str(layout.kube), "--images", str(layout.images_file)),
            *("--kubeconfig", str(layout.kubeconfig), "--port", str(ports[KUBE])),
        ),
        env=base_environment(layout),
        cwd=layout.state,
        ready=KubernetesProbe(kubeconfig=layout.kubeconfig),
        url=f"https://{LOOPBACK}:{ports[KUBE]}",
    )


def write_images(layout: StackLayout, ports: Mapping[str, int]) -> None:
    """Tell the node which Python environment stands for the trainer image."""
    layout.images_file.write_text(json.dumps({"images": images(layout, ports)}, indent=2, sort_keys=True))


def images(layout: StackLayout, ports: Mapping[str, int]) -> dict[str, dict[str, object]]:
    trainer: dict[str, object] = {
        "path": [str(layout.programs)],
        "working_directory": str(layout.root),
        "env": tensorflow_environment(layout, ports) | {"PYTHONPATH": str(layout.root), MARKER: str(layout.state)},
    }
    return {TRAINER_IMAGE: trainer}
