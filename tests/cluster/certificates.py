"""The cluster's certificate authority, what it signs, and the kubeconfigs made of it.

Every client is told apart by its certificate, as on any cluster: the API server reads the user from the common name and
the groups from the organization.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from pathlib import Path

import trustme


@dataclass(frozen=True, kw_only=True, slots=True)
class KeyPair:
    """Paths of a certificate and its key, PEM."""

    certificate: Path
    key: Path


@dataclass(frozen=True, kw_only=True, slots=True)
class Certificates:
    """Issues into `folder`; an existing pair is kept, so that a restarted component keeps its identity."""

    folder: Path

    @property
    def authority(self) -> Path:
        return self.folder / "ca.crt"

    def issue(self, name: str, *, user: str, group: str | None = None, hosts: tuple[str, ...] = ()) -> KeyPair:
        pair = KeyPair(certificate=self.folder / f"{name}.crt", key=self.folder / f"{name}.key")
        if not pair.key.exists():
            # Go refuses a certificate without any name of a host, which a client has no use for.
            hosts = hosts or (f"{name}.invalid",)
            issued = self._load().issue_cert(*hosts, common_name=user, organization_name=group or user)
            pair.certificate.write_bytes(b"".join(each.bytes() for each in issued.cert_chain_pems))
            _write_secret(pair.key, issued.private_key_pem.bytes())
        return pair

    def _load(self) -> trustme.CA:
        key = self.folder / "ca.key"
        if key.exists():
            return trustme.CA.from_pem(self.authority.read_bytes(), key.read_bytes())
        authority = trustme.CA()
        self.folder.mkdir(parents=True, exist_ok=True)
        self.authority.write_bytes(authority.cert_pem.bytes())
        _write_secret(key, authority.private_key_pem.bytes())
        return authority


def write_kubeconfig(path: Path, *, server: str, authority: Path, pair: KeyPair) -> Path:
    """A kubeconfig that holds its certificates itself, so that it may be copied. JSON, which is YAML."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "lockstep",
        "contexts": [{"name": "lockstep", "context": {"cluster": "lockstep", "user": "lockstep"}}],
        "clusters": [
            {"name": "lockstep", "cluster": {"server": server, "certificate-authority-data": _encoded(authority)}}
        ],
        "users": [
            {
                "name": "lockstep",
                "user": {
                    "client-certificate-data": _encoded(pair.certificate),
                    "client-key-data": _encoded(pair.key),
                },
            }
        ],
    }
    _write_secret(path, json.dumps(config, indent=2).encode())
    return path


def _encoded(file: Path) -> str:
    return base64.b64encode(file.read_bytes()).decode()


def _write_secret(path: Path, content: bytes) -> None:
    path.touch(mode=0o600)
    path.write_bytes(content)
