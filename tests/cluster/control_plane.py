"""etcd, API server, controller manager and scheduler: their command lines, and nothing else.

All of them listen on loopback only. Differences from a production control plane are choices for one test node: etcd
does not wait for the disk, nobody elects a leader, a lost node is noticed within half a minute instead of six.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.cluster.certificates import Certificates, KeyPair, write_kubeconfig
from tests.cluster.component import Component
from tests.cluster.http_probe import answers
from tests.cluster.layout import ClusterLayout
from tests.cluster.programs import Programs

ADMINISTRATORS = "system:masters"
GANG_SCHEDULING = "--feature-gates=GenericWorkload=true"
LOST_NODE_AFTER_S = 20
SERVICE_ADDRESSES = "10.96.0.0/16"


@dataclass(frozen=True, kw_only=True, slots=True)
class ControlPlane:
    """The four components of a control plane in `layout`."""

    layout: ClusterLayout
    programs: Programs
    certificates: Certificates

    def administrator(self) -> KeyPair:
        return self.certificates.issue("administrator", user="lockstep-administrator", group=ADMINISTRATORS)

    def kubeconfig(self, name: str, *, user: str, group: str | None = None) -> str:
        """Path of a kubeconfig for `user` inside the state folder."""
        pair = self.certificates.issue(name, user=user, group=group)
        path = self.layout.folder("kubeconfigs") / name
        write_kubeconfig(path, server=self.layout.api_url, authority=self.certificates.authority, pair=pair)
        return str(path)

    def etcd(self) -> Component:
        url, peer, health = (f"127.0.0.1:{self.layout.ports[port]}" for port in ("etcd", "etcd-peer", "etcd-health"))
        pair = self.certificates.issue("etcd", user="etcd", hosts=("127.0.0.1",))
        return Component(
            name="etcd",
            argv=(
                self.programs.program("etcd"),
                f"--data-dir={self.layout.folder('etcd')}",
                f"--listen-client-urls=https://{url}",
                f"--advertise-client-urls=https://{url}",
                f"--listen-peer-urls=http://{peer}",
                f"--initial-advertise-peer-urls=http://{peer}",
                f"--initial-cluster=default=http://{peer}",
                f"--listen-metrics-urls=http://{health}",
                *_serving(pair, "--cert-file", "--key-file"),
                f"--trusted-ca-file={self.certificates.authority}",
                "--client-cert-auth",
                "--unsafe-no-fsync",
                "--log-level=warn",
            ),
            ready=answers(f"http://{health}/readyz"),
        )

    def api_server(self) -> Component:
        authority = self.certificates.authority
        serving = self.certificates.issue(
            "kube-apiserver", user="kube-apiserver", hosts=("127.0.0.1", "localhost", "kubernetes.default.svc")
        )
        to_etcd = self.certificates.issue("apiserver-to-etcd", user="kube-apiserver")
        to_kubelet = self.certificates.issue("apiserver-to-kubelet", user="kube-apiserver", group=ADMINISTRATORS)
        tokens = self.certificates.issue("service-accounts", user="service-accounts")
        return Component(
            name="kube-apiserver",
            argv=(
                self.programs.program("kube-apiserver"),
                "--bind-address=127.0.0.1",
                f"--secure-port={self.layout.ports['kube-apiserver']}",
                f"--etcd-servers=https://127.0.0.1:{self.layout.ports['etcd']}",
                f"--etcd-cafile={authority}",
                *_serving(to_etcd, "--etcd-certfile", "--etcd-keyfile"),
                *_serving(serving, "--tls-cert-file", "--tls-private-key-file"),
                f"--client-ca-file={authority}",
                f"--kubelet-certificate-authority={authority}",
                *_serving(to_kubelet, "--kubelet-client-certificate", "--kubelet-client-key"),
                "--kubelet-preferred-address-types=InternalIP",
                "--authorization-mode=Node,RBAC",
                "--enable-admission-plugins=NodeRestriction",
                "--allow-privileged",  # as everywhere; who may is decided by pod security, namespace by namespace
                f"--service-cluster-ip-range={SERVICE_ADDRESSES}",
                "--service-account-issuer=https://kubernetes.default.svc",
                f"--service-account-key-file={tokens.key}",
                f"--service-account-signing-key-file={tokens.key}",
                "--endpoint-reconciler-type=none",  # the only kind that lets the server be on loopback alone
                "--shutdown-watch-termination-grace-period=1s",
                GANG_SCHEDULING,
                "--runtime-config=scheduling.k8s.io/v1beta1=true",
            ),
            ready=answers(f"{self.layout.api_url}/readyz", authority, self.administrator()),
        )

    def controller_manager(self) -> Component:
        tokens = self.certificates.issue("service-accounts", user="service-accounts")
        return self._manager(
            "kube-controller-manager",
            f"--root-ca-file={self.certificates.authority}",
            f"--service-account-private-key-file={tokens.key}",
            "--use-service-account-credentials",
            f"--node-monitor-grace-period={LOST_NODE_AFTER_S}s",
        )

    def scheduler(self) -> Component:
        return self._manager("kube-scheduler")

    def _manager(self, name: str, *flags: str) -> Component:
        port = self.layout.ports[name]
        serving = self.certificates.issue(f"{name}-serving", user=name, hosts=("127.0.0.1",))
        kubeconfig = self.kubeconfig(name, user=f"system:{name}")
        return Component(
            name=name,
            argv=(
                self.programs.program(name),
                f"--kubeconfig={kubeconfig}",
                f"--authentication-kubeconfig={kubeconfig}",
                f"--authorization-kubeconfig={kubeconfig}",
                "--bind-address=127.0.0.1",
                f"--secure-port={port}",
                *_serving(serving, "--tls-cert-file", "--tls-private-key-file"),
                "--leader-elect=false",
                GANG_SCHEDULING,
                *flags,
            ),
            ready=answers(f"https://127.0.0.1:{port}/healthz", self.certificates.authority),
        )


def _serving(pair: KeyPair, certificate_flag: str, key_flag: str) -> tuple[str, str]:
    return f"{certificate_flag}={pair.certificate}", f"{key_flag}={pair.key}"
