"""Kubeflow's training operator as a host process, for TFJobs: what people used before, to compare with.

It makes its webhook's certificate itself, into a Secret, and waits until the files of a mounted Secret appear; the
mount is played by `mount_training_operator_certificates`.
"""

from __future__ import annotations

import base64
import json

from tests.cluster.component import Component
from tests.cluster.control_plane import ADMINISTRATORS, ControlPlane
from tests.cluster.definitions import define
from tests.cluster.http_probe import answers
from tests.cluster.mount_namespace import NAME as MOUNT_NAMESPACE
from tests.cluster.objects import apply_objects, kubectl

NAMESPACE = "kubeflow"
SECRET = "training-operator-webhook-cert"


def training_operator(plane: ControlPlane) -> Component:
    ports = plane.layout.ports
    return Component(
        name="training-operator",
        argv=(
            plane.programs.program("training-operator"),
            "--enable-scheme=tfjob",
            "--metrics-bind-address=0",
            f"--health-probe-bind-address=127.0.0.1:{ports['training-operator-health']}",
            f"--webhook-server-port={ports['training-operator-webhook']}",
        ),
        environment={
            "KUBECONFIG": plane.kubeconfig(
                "training-operator", user="lockstep-training-operator", group=ADMINISTRATORS
            ),
            "MY_POD_NAMESPACE": NAMESPACE,
        },
        ready=lambda: _mount_certificates(plane) and _healthy(plane),
        inside=MOUNT_NAMESPACE,
    )


def define_training_operator(plane: ControlPlane) -> None:
    """What must be in the cluster before the operator starts: definitions, and the objects that it fills."""
    define(plane, plane.programs.manifests("training-operator", "crd") / "kubeflow.org_tfjobs.yaml")
    apply_objects(
        plane.layout,
        plane.programs,
        [
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
            {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": SECRET, "namespace": NAMESPACE}},
            {
                "apiVersion": "admissionregistration.k8s.io/v1",
                "kind": "ValidatingWebhookConfiguration",
                "metadata": {"name": "validator.training-operator.kubeflow.org"},
            },
        ],
    )


def _mount_certificates(plane: ControlPlane) -> bool:
    folder = plane.layout.folder("training-operator/webhook/serving-certs")
    if any(folder.iterdir()):
        return True
    found = kubectl(plane.layout, plane.programs, "get", "secret", SECRET, f"--namespace={NAMESPACE}", "--output=json")
    data = json.loads(found.stdout).get("data", {})
    for name, content in data.items():
        (folder / name).write_bytes(base64.b64decode(content))
    return bool(data)


def _healthy(plane: ControlPlane) -> bool:
    return answers(f"http://127.0.0.1:{plane.layout.ports['training-operator-health']}/readyz")()
