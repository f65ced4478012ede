"""Where one cluster of ours lives: its folder, its names on the machine, its addresses and ports.

Chosen once per `up`, kept in `layout.json`, and read by everything else; nothing here starts or changes anything.
"""

from __future__ import annotations

import hashlib
import ipaddress
import json
import os
import socket
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

NAME_PREFIX = "lockstep-"
LONGEST_STATE_BYTES = 107 - len("/kubelet/pod-resources/kubelet.sock")  # what Linux allows for a socket's path
PORT_NAMES = (
    "etcd",
    "etcd-peer",
    "etcd-health",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubelet",
    "kubelet-health",
    "coredns-ready",
    "kueue-webhook",
    "kueue-metrics",
    "kueue-health",
    "training-operator-webhook",
    "training-operator-health",
    "kwok",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class ClusterLayout:
    """One node's place on the machine. `state` is absolute; `subnet`, an IPv4 /24, is the bridge's alone."""

    state: Path
    subnet: str
    ports: Mapping[str, int]

    @property
    def name(self) -> str:
        """Names bridge, cgroup and CNI network; 15 characters, the most that an interface may have."""
        return f"{NAME_PREFIX}{hashlib.sha256(str(self.state).encode()).hexdigest()[:6]}"

    @property
    def node_address(self) -> str:
        return str(ipaddress.ip_network(self.subnet)[1])

    @property
    def node_name(self) -> str:
        return "lockstep-node"

    @property
    def dns_address(self) -> str:
        return self.node_address

    @property
    def api_url(self) -> str:
        return f"https://127.0.0.1:{self.ports['kube-apiserver']}"

    @property
    def kubeconfig(self) -> Path:
        return self.state / "kubeconfig"

    @property
    def containerd_socket(self) -> Path:
        return self.state / "run" / "containerd.sock"

    def folder(self, name: str) -> Path:
        path = self.state / name
        path.mkdir(parents=True, exist_ok=True)
        return path


def choose_layout(state: Path) -> ClusterLayout:
    """A layout that collides with nothing that the machine has now. Raises SystemExit where `state` is too deep."""
    if len(os.fsencode(state)) > LONGEST_STATE_BYTES:
        raise SystemExit(
            f"{state} is too long a path for the sockets in it (at most {LONGEST_STATE_BYTES} bytes): "
            "bring the node up from a clone whose path is shorter"
        )
    return ClusterLayout(state=state, subnet=_free_subnet(_routed_networks()), ports=_free_ports())


def read_layout(state: Path) -> ClusterLayout | None:
    """The layout of the cluster that was brought up from `state`; None where none was."""
    file = state / "layout.json"
    if not file.exists():
        return None
    stored = json.loads(file.read_text())
    return ClusterLayout(state=state, subnet=stored["subnet"], ports=stored["ports"])


def write_layout(layout: ClusterLayout) -> None:
    layout.state.mkdir(parents=True, exist_ok=True)
    stored = {key: value for key, value in asdict(layout).items() if key != "state"}
    (layout.state / "layout.json").write_text(json.dumps(stored, indent=2, sort_keys=True))


def _free_ports() -> dict[str, int]:
    with ExitStack() as held:
        sockets = {name: held.enter_context(socket.socket()) for name in PORT_NAMES}
        for each in sockets.values():
            each.bind(("127.0.0.1", 0))
        return {name: int(each.getsockname()[1]) for name, each in sockets.items()}


def _free_subnet(taken: Iterable[ipaddress.IPv4Network]) -> str:
    taken = tuple(taken)
    for third in range(256):
        candidate = ipaddress.IPv4Network(f"10.231.{third}.0/24")
        if not any(candidate.overlaps(network) for network in taken):
            return str(candidate)
    raise SystemExit("no subnet of 10.231.0.0/16 is free for the cluster's bridge; see `ip route`")


def _routed_networks() -> tuple[ipaddress.IPv4Network, ...]:
    rows = (line.split() for line in Path("/proc/net/route").read_text().splitlines()[1:])
    return tuple(
        ipaddress.IPv4Network((_little_endian(destination), str(_little_endian(mask))))
        for _, destination, _, _, _, _, _, mask, *_ in rows
        if mask != "00000000"
    )


def _little_endian(word: str) -> ipaddress.IPv4Address:
    return ipaddress.IPv4Address(bytes.fromhex(word)[::-1])
