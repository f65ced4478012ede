"""kube-router as a host process, for as long as a test asks for it: it makes packet filter rules of NetworkPolicies.

Not longer, because the packet filter is the machine's; nothing else of kube-router (routes, Services) is switched on.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from tests.cluster.component import Component, start, stop
from tests.cluster.control_plane import ADMINISTRATORS, SERVICE_ADDRESSES, ControlPlane

NAME = "kube-router"
_PREFIX = "KUBE-"  # of every chain and set that it makes


def network_policies(plane: ControlPlane) -> Component:
    return Component(
        name=NAME,
        argv=(
            plane.programs.program(NAME),
            "--run-firewall",
            "--run-router=false",
            "--run-service-proxy=false",
            "--enable-cni=false",
            f"--kubeconfig={plane.kubeconfig(NAME, user='lockstep-kube-router', group=ADMINISTRATORS)}",
            f"--hostname-override={plane.layout.node_name}",
            f"--service-cluster-ip-range={SERVICE_ADDRESSES}",
            "--health-port=0",  # or it would listen on all of the machine's addresses
            "--metrics-port=0",
        ),
        ready=lambda: bool(_chains()),
    )


@contextmanager
def enforced(plane: ControlPlane) -> Iterator[None]:
    """NetworkPolicies bind the pods of the node, soon after the block has begun and until it ends."""
    if _chains():
        raise AssertionError(f"the packet filter has chains {_PREFIX}… of somebody else's; they would be mixed up")
    _checked("ip", "link", "set", "dev", plane.layout.name, "type", "bridge", "nf_call_iptables", "1")
    try:
        start(network_policies(plane), plane.layout)
        yield
    finally:
        stop(NAME, plane.layout)
        remove_rules()


def remove_rules() -> None:
    """Take away what kube-router leaves behind when it ends; nothing happens where nothing is."""
    if _chains():
        kept = [line for line in _saved() if _PREFIX not in line]
        _checked("iptables-restore", "--counters", "--table=filter", given="\n".join([*kept, ""]))
    for name in _checked("ipset", "list", "-name").split():
        if name.startswith(_PREFIX):
            _checked("ipset", "destroy", name)


def _chains() -> list[str]:
    return [line for line in _saved() if line.startswith(f":{_PREFIX}")]


def _saved() -> list[str]:
    return _checked("iptables-save", "--counters", "--table=filter").splitlines()


def _checked(*command: str, given: str | None = None) -> str:
    done = subprocess.run(command, input=given, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)} failed: {done.stderr.strip()}")
    return done.stdout
