"""CoreDNS on the node's address: pods' and Services' names, and no others."""

from __future__ import annotations

from tests.cluster.component import Component
from tests.cluster.control_plane import ADMINISTRATORS, ControlPlane
from tests.cluster.http_probe import answers
from tests.cluster.kubelet import CLUSTER_DOMAIN

_COREFILE = """\
{domain}:53 in-addr.arpa:53 {{
    bind {address}
    errors
    ready 127.0.0.1:{ready}
    kubernetes {domain} in-addr.arpa {{
        kubeconfig {kubeconfig}
        ttl 5
    }}
}}
.:53 {{
    bind {address}
    template ANY ANY {{
        rcode NXDOMAIN
    }}
}}
"""


def domain_names(plane: ControlPlane) -> Component:
    """CoreDNS; names outside the cluster do not exist for its pods."""
    layout = plane.layout
    kubeconfig = plane.kubeconfig("coredns", user="lockstep-coredns", group=ADMINISTRATORS)
    ready = layout.ports["coredns-ready"]
    corefile = layout.folder("run") / "Corefile"
    corefile.write_text(
        _COREFILE.format(address=layout.dns_address, ready=ready, domain=CLUSTER_DOMAIN, kubeconfig=kubeconfig)
    )
    return Component(
        name="coredns",
        argv=(plane.programs.program("coredns"), "-conf", str(corefile)),
        ready=answers(f"http://127.0.0.1:{ready}/ready"),
    )
