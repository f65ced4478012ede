"""The stack's Kubernetes API server as a service, and the images that its node knows."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

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


def write_images(layout: StackLayout, ports: Mapping[str, int], imports: Sequence[Path]) -> None:
    """Tell the node which Python environment stands for the trainer image, and from where else it imports."""
    layout.images_file.write_text(json.dumps({"images": images(layout, ports, imports)}, indent=2, sort_keys=True))


def images(layout: StackLayout, ports: Mapping[str, int], imports: Sequence[Path]) -> dict[str, dict[str, object]]:
    python_path = os.pathsep.join(map(str, (*imports, layout.root)))
    trainer: dict[str, object] = {
        "path": [str(layout.programs)],
        "working_directory": str(layout.root),
        "env": tensorflow_environment(layout, ports) | {"PYTHONPATH": python_path, MARKER: str(layout.state)},
    }
    return {TRAINER_IMAGE: trainer}
