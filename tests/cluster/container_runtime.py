"""A containerd of the cluster's own: its configuration, its images, and what it leaves running.

It shares programs with a containerd that the machine may have, but no socket, folder, network or name.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from tests.cluster.bridge import cni_network
from tests.cluster.component import Component
from tests.cluster.layout import ClusterLayout
from tests.cluster.mount_namespace import NAME as MOUNT_NAMESPACE

PAUSE_IMAGE = "localhost/lockstep/pause:1"
CNI_PROGRAMS = "/usr/lib/cni"
KUBERNETES = "k8s.io"  # containerd's namespace for what the kubelet runs

_CONFIG = """\
version = 2
root = "{root}"
state = "{state}"
oom_score = 0
disabled_plugins = [
  "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs",
]
[grpc]
  address = "{socket}"
[plugins."io.containerd.internal.v1.opt"]
  path = "{opt}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause}"
  stream_server_address = "127.0.0.1"
  restrict_oom_score_adj = true   # root without CAP_SYS_RESOURCE may not lower it
  netns_mounts_under_state_dir = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{cni_programs}"
    conf_dir = "{cni_networks}"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        ShimCgroup = "/{group}/system"
"""


def container_runtime(layout: ClusterLayout) -> Component:
    """containerd, configured. Its images outlast `down`, so that the next `up` need not import them again."""
    networks = layout.folder("cni-networks")
    (networks / "10-lockstep.conflist").write_text(json.dumps(cni_network(layout), indent=2))
    config = layout.folder("run") / "containerd.toml"
    config.write_text(_configuration(layout, networks))
    return Component(
        name="containerd",
        argv=("containerd", "--config", str(config)),
        ready=lambda: _ctr(layout, "version").returncode == 0,
        inside=MOUNT_NAMESPACE,
    )


def image_names(layout: ClusterLayout) -> frozenset[str]:
    return frozenset(_ctr(layout, "images", "list", "--quiet").stdout.split())


def blobs(layout: ClusterLayout) -> frozenset[str]:
    """Digests of all that containerd has stored."""
    return frozenset(_ctr(layout, "content", "list", "--quiet").stdout.split())


def import_image(layout: ClusterLayout, archive: Path) -> None:
    """Bring an OCI archive in, under the name it carries."""
    _checked(layout, "images", "import", str(archive))


def name_image(layout: ClusterLayout, name: str, another: str) -> None:
    """Give an image `another` name beside its own."""
    _checked(layout, "images", "tag", "--force", name, another)


def remove_containers(layout: ClusterLayout) -> None:
    """End every container, pause included, and forget it; images stay. Call it only once the kubelet is gone."""
    for task in _ctr(layout, "tasks", "list", "--quiet").stdout.split():
        _ctr(layout, "tasks", "delete", "--force", task)
    for container in _ctr(layout, "containers", "list", "--quiet").stdout.split():
        _ctr(layout, "containers", "delete", container)


def _configuration(layout: ClusterLayout, networks: Path) -> str:
    return _CONFIG.format(
        root=layout.folder("containerd"),
        state=layout.folder("run/containerd-state"),
        socket=layout.containerd_socket,
        opt=layout.folder("run/opt"),
        pause=PAUSE_IMAGE,
        cni_programs=CNI_PROGRAMS,
        cni_networks=networks,
        group=layout.name,
    )


def _ctr(layout: ClusterLayout, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = ["ctr", "--address", str(layout.containerd_socket), "--namespace", KUBERNETES, *arguments]
    return subprocess.run(command, capture_output=True, text=True)


def _checked(layout: ClusterLayout, *arguments: str) -> None:
    done = _ctr(layout, *arguments)
    if done.returncode != 0:
        raise SystemExit(f"ctr {' '.join(arguments)} failed: {done.stderr.strip()}")
