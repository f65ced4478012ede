"""Kueue's own controller as a host process: queues for plain pods, with its admission webhooks.

Its Service and certificate manager are replaced by an address on loopback and a certificate of the cluster's authority;
definitions, webhooks and program are those of its module.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import yaml

from tests.cluster.certificates import KeyPair
from tests.cluster.component import Component
from tests.cluster.control_plane import ADMINISTRATORS, ControlPlane
from tests.cluster.definitions import define
from tests.cluster.http_probe import answers
from tests.cluster.mount_namespace import NAME as MOUNT_NAMESPACE
from tests.cluster.objects import apply_objects

NAMESPACE = "kueue-system"
UNMANAGED_NAMESPACES = ("kube-system", NAMESPACE)
GROUPS = frozenset({"kueue.x-k8s.io", ""})  # its own objects, and pods; no framework whose objects nobody has here


def kueue(plane: ControlPlane) -> Component:
    layout, ports = plane.layout, plane.layout.ports
    serving = plane.certificates.issue("kueue-webhook", user="kueue", hosts=("127.0.0.1",))
    for folder in ("kueue/serving", "kueue/metrics/certs"):  # the second is /etc/kueue/metrics/certs inside
        _lay_out(serving, plane, folder)
    config = layout.folder("run") / "kueue.json"
    config.write_text(json.dumps(_configuration(plane), indent=2))
    return Component(
        name="kueue",
        argv=(plane.programs.program("kueue"), f"--config={config}", "--feature-gates=VisibilityOnDemand=false"),
        environment={"KUBECONFIG": plane.kubeconfig("kueue", user="lockstep-kueue", group=ADMINISTRATORS)},
        ready=answers(f"http://127.0.0.1:{ports['kueue-health']}/readyz"),
        inside=MOUNT_NAMESPACE,
    )


def define_kueue(plane: ControlPlane) -> None:
    """What must be in the cluster before the controller starts."""
    define(plane, *sorted(plane.programs.manifests("kueue", "crd").iterdir()))
    apply_objects(
        plane.layout, plane.programs, [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}]
    )


def register_kueue_webhooks(plane: ControlPlane) -> None:
    """Called once the controller answers: from here on no pod is created without asking it."""
    apply_objects(plane.layout, plane.programs, _webhooks(plane))


def _webhooks(plane: ControlPlane) -> Iterator[dict[str, Any]]:
    authority = base64.b64encode(plane.certificates.authority.read_bytes()).decode()
    published = plane.programs.manifests("kueue", "webhook") / "manifests.yaml"
    for configuration in yaml.safe_load_all(published.read_text()):
        used = [hook for hook in configuration["webhooks"] if _groups(hook) <= GROUPS]
        for hook in used:
            path = hook["clientConfig"]["service"]["path"]
            url = f"https://127.0.0.1:{plane.layout.ports['kueue-webhook']}{path}"
            hook["clientConfig"] = {"url": url, "caBundle": authority}
            if "" in _groups(hook):
                hook["namespaceSelector"] = _outside(UNMANAGED_NAMESPACES)
        name = f"kueue-{configuration['metadata']['name']}"
        yield {**configuration, "metadata": {"name": name}, "webhooks": used}


def _groups(hook: dict[str, Any]) -> frozenset[str]:
    return frozenset(group for rule in hook["rules"] for group in rule["apiGroups"])


def _outside(namespaces: tuple[str, ...]) -> dict[str, Any]:
    name = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": list(namespaces)}
    return {"matchExpressions": [name]}


def _configuration(plane: ControlPlane) -> dict[str, Any]:
    ports = plane.layout.ports
    return {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "health": {"healthProbeBindAddress": f"127.0.0.1:{ports['kueue-health']}"},
        "metrics": {"bindAddress": f"127.0.0.1:{ports['kueue-metrics']}"},
        "webhook": {
            "host": "127.0.0.1",
            "port": ports["kueue-webhook"],
            "certDir": str(plane.layout.folder("kueue/serving")),
        },
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
        "integrations": {"frameworks": ["pod"]},
    }


def _lay_out(pair: KeyPair, plane: ControlPlane, folder: str) -> None:
    target = plane.layout.folder(folder)
    (target / "tls.crt").write_bytes(pair.certificate.read_bytes())
    (target / "tls.key").write_bytes(pair.key.read_bytes())
    (target / "ca.crt").write_bytes(plane.certificates.authority.read_bytes())
