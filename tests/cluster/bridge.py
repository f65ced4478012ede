"""The node's bridge: the one interface of the machine that a cluster adds (pods' ends of it are in their namespaces).

The address is the node's, the DNS server's, and that of whatever the pods shall reach outside of them. No rule of a
packet filter, no forwarding and no route beyond the subnet is needed, so none is made.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from tests.cluster.layout import NAME_PREFIX, ClusterLayout


def make_bridge(layout: ClusterLayout) -> None:
    """Make the bridge and give it the node's address; nothing happens where it is there already."""
    if bridge_exists(layout):
        return
    _ip("link", "add", "name", layout.name, "type", "bridge")
    _ip("address", "add", f"{layout.node_address}/24", "dev", layout.name)
    _ip("link", "set", layout.name, "up")


def remove_bridge(layout: ClusterLayout) -> None:
    """Remove the bridge and the host's ends of the pods' cables, which would otherwise outlive a crash."""
    if not bridge_exists(layout):
        return
    for cable in json.loads(_ip("-json", "link", "show", "master", layout.name) or "[]"):
        _ip("link", "delete", cable["ifname"])
    _ip("link", "delete", layout.name)


def bridge_exists(layout: ClusterLayout) -> bool:
    return Path("/sys/class/net", layout.name).exists()


def bridges() -> tuple[str, ...]:
    """The bridges of all clusters on this machine."""
    return tuple(sorted(path.name for path in Path("/sys/class/net").glob(f"{NAME_PREFIX}*")))


def cni_network(layout: ClusterLayout) -> dict[str, object]:
    """What containerd's CNI folder says about the pods' network."""
    addresses = {
        "type": "host-local",
        "dataDir": str(layout.folder("cni-addresses")),
        "ranges": [[{"subnet": layout.subnet, "gateway": layout.node_address}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    bridge = {"type": "bridge", "bridge": layout.name, "hairpinMode": True, "ipam": addresses}
    return {"cniVersion": "0.4.0", "name": layout.name, "plugins": [bridge]}


def _ip(*arguments: str) -> str:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"ip {' '.join(arguments)} failed: {done.stderr.strip()}")
    return done.stdout
