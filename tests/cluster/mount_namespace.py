"""The mount namespace in which the node's programs run, and what they see in it.

Container root file systems, pod volumes and network namespaces are all mounts. In a namespace of their own they never
show on the machine, and end with the last process inside, whatever crashed. The paths that the programs insist on
(`/run/containerd`, `/var/lib/cni`, …) are folders of the cluster's own there.
"""

from __future__ import annotations

import json
import shlex
from pathlib import Path

from tests.cluster.component import Component
from tests.cluster.layout import ClusterLayout

NAME = "mount-namespace"

# Which mount points were made: one list for the machine, since clusters share them.
MADE = Path("/var/tmp/lockstep-cluster-mount-points.json")

# path inside -> folder of the state that stands there
PRIVATE_FOLDERS = {
    "/etc/kueue": "kueue",
    "/run/containerd": "run/containerd",
    "/tmp/k8s-webhook-server": "training-operator/webhook",
    "/var/lib/cni": "cni-cache",
    "/var/lib/kubelet": "kubelet-fixed",
    "/var/log/containers": "container-logs",
}


def mount_namespace(layout: ClusterLayout) -> Component:
    """The process that holds the namespace open; components with `inside` join it."""
    ready = layout.folder("run") / "mounts-ready"
    ready.unlink(missing_ok=True)
    commands = ["set -e", "mount --make-rprivate /", "mount --make-rshared /"]
    for path, folder in PRIVATE_FOLDERS.items():
        commands.append(f"mount --bind {shlex.quote(str(layout.folder(folder)))} {path}")
    commands += [f"touch {shlex.quote(str(ready))}", "exec sleep infinity"]
    argv = ("unshare", "--mount", "--propagation", "private", "sh", "-c", "\n".join(commands))
    return Component(name=NAME, argv=argv, ready=ready.exists)


def make_mount_points() -> None:
    """A mount needs a folder to be mounted on; remember those that the machine did not have."""
    missing = [path for path in PRIVATE_FOLDERS if not Path(path).exists()]
    MADE.write_text(json.dumps(sorted({*_made(), *missing})))
    for path in missing:
        Path(path).mkdir(parents=True)


def remove_mount_points() -> None:
    """Called by the last cluster of the machine: without its folder, a mount is gone in every namespace."""
    for path in map(Path, _made()):
        if path.is_dir() and not any(path.iterdir()):
            path.rmdir()
    MADE.unlink(missing_ok=True)


def _made() -> list[str]:
    return list(json.loads(MADE.read_text())) if MADE.exists() else []
