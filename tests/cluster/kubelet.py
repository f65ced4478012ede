"""The node's kubelet: its configuration and its command line."""

from __future__ import annotations

import json

from tests.cluster.component import Component
from tests.cluster.control_plane import ControlPlane
from tests.cluster.http_probe import answers
from tests.cluster.mount_namespace import NAME as MOUNT_NAMESPACE

CLUSTER_DOMAIN = "cluster.local"


def kubelet(plane: ControlPlane) -> Component:
    """The kubelet of the one node, which registers itself under `layout.node_name`."""
    layout = plane.layout
    config = layout.folder("run") / "kubelet.json"
    config.write_text(json.dumps(_configuration(plane), indent=2))
    user = f"system:node:{layout.node_name}"
    return Component(
        name="kubelet",
        argv=(
            plane.programs.program("kubelet"),
            f"--config={config}",
            f"--kubeconfig={plane.kubeconfig('kubelet', user=user, group='system:nodes')}",
            f"--root-dir={layout.folder('kubelet')}",
            f"--node-ip={layout.node_address}",
            f"--hostname-override={layout.node_name}",
        ),
        ready=answers(f"http://127.0.0.1:{layout.ports['kubelet-health']}/healthz"),
        inside=MOUNT_NAMESPACE,
    )


def _configuration(plane: ControlPlane) -> dict[str, object]:
    layout = plane.layout
    serving = plane.certificates.issue("kubelet-serving", user="kubelet", hosts=(layout.node_address,))
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": layout.node_address,
        "port": layout.ports["kubelet"],
        "readOnlyPort": 0,
        "healthzPort": layout.ports["kubelet-health"],
        "tlsCertFile": str(serving.certificate),
        "tlsPrivateKeyFile": str(serving.key),
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(plane.certificates.authority)},
        },
        "authorization": {"mode": "Webhook"},
        "containerRuntimeEndpoint": f"unix://{layout.containerd_socket}",
        "clusterDNS": [layout.dns_address],
        "clusterDomain": CLUSTER_DOMAIN,
        "resolvConf": "",
        "podLogsDir": str(layout.folder("pod-logs")),
        "volumePluginDir": str(layout.folder("run/volume-plugins")),
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{layout.name}",
        "failCgroupV1": False,
        "failSwapOn": False,
        "enforceNodeAllocatable": [],
        "localStorageCapacityIsolation": False,
        "makeIPTablesUtilChains": False,
        # A machine that others fill too: pods go when memory does, never because of somebody else's files.
        "evictionHard": {"memory.available": "200Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        "imageGCHighThresholdPercent": 100,
        "nodeStatusUpdateFrequency": "4s",
        "nodeStatusReportFrequency": "4s",
        "nodeLeaseDurationSeconds": 12,
        "logging": {"verbosity": 1},
    }
