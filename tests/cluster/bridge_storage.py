"""The Cloud Storage emulator where pods of the node can reach it: on the bridge, behind the gateway for TensorFlow.

Airflow's side reaches it by STORAGE_EMULATOR_HOST. What the pods need (variables, the gateway's authority) is
put into them by an admission policy of the namespace, so that DAG, plugin and image are those of production.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from lockstep.local.certificates import authority_file
from lockstep.local.storage_service import emulator_program
from tests.cluster.installation import Installation
from tests.cluster.waiting import wait_until

BUCKET = "lockstep"
AUTHORITY = "storage-authority"
AUTHORITY_FOLDER = "/etc/storage-authority"


@dataclass(frozen=True, kw_only=True, slots=True)
class BridgeStorage:
    """`emulator` and `gateway` are URLs on the bridge, `authority` the PEM text of whom the gateway's clients trust."""

    emulator: str
    gateway: str
    authority: str

    def pod_environment(self) -> Mapping[str, str]:
        return {
            "STORAGE_EMULATOR_HOST": self.emulator,
            "https_proxy": self.gateway,
            # The workers' own gRPC must not go through the proxy.
            "no_proxy": ".svc,.cluster.local,localhost,127.0.0.1",
            "CURL_CA_BUNDLE": f"{AUTHORITY_FOLDER}/ca.pem",
            "GOOGLE_AUTH_TOKEN_FOR_TESTING": "emulator",
        }


@contextmanager
def bridge_storage(address: str, folder: Path) -> Iterator[BridgeStorage]:
    """An emulator with an empty bucket, and its gateway, listening on `address`."""
    emulator, gateway = (f"http://{address}:{port}" for port in _free_ports(address))
    certificates = folder / "certificates"
    commands = (
        (
            *(str(emulator_program()), "-scheme=http", f"-host={address}", f"-port={emulator.rpartition(':')[2]}"),
            *("-backend=filesystem", f"-filesystem-root={folder / 'objects'}", f"-external-url={emulator}"),
            "-log-level=warn",
        ),
        (
            *(sys.executable, "-m", "lockstep.local.gcs_gateway", "--emulator", emulator),
            *("--certificates", str(certificates), "--host", address, "--port", gateway.rpartition(":")[2]),
        ),
    )
    with (folder / "storage.log").open("wb") as log:
        processes = [subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT) for command in commands]
    try:
        wait_until(lambda: _bucket_made(emulator), what="the storage emulator", timeout_s=30)
        wait_until(
            lambda: authority_file(certificates).exists() and _listens(gateway), what="its gateway", timeout_s=30
        )
        yield BridgeStorage(emulator=emulator, gateway=gateway, authority=authority_file(certificates).read_text())
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait(timeout=10)


def lead_pods_to(storage: BridgeStorage, installation: Installation) -> list[dict[str, Any]]:
    """Objects that give every pod of the gangs' namespace the storage's variables and authority."""
    name, api = f"storage-{installation.namespace}", "admissionregistration.k8s.io/v1"
    here = {"matchLabels": {"kubernetes.io/metadata.name": installation.namespace}}
    pods = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    mutation = {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": _mutation(storage)}}
    return [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": AUTHORITY, "namespace": installation.namespace},
            "data": {"ca.pem": storage.authority},
        },
        {
            "apiVersion": api,
            "kind": "MutatingAdmissionPolicy",
            "metadata": {"name": name},
            "spec": {
                "failurePolicy": "Fail",
                "reinvocationPolicy": "Never",
                "matchConstraints": {"resourceRules": [pods]},
                "mutations": [mutation],
            },
        },
        {
            "apiVersion": api,
            "kind": "MutatingAdmissionPolicyBinding",
            "metadata": {"name": name},
            "spec": {"policyName": name, "matchResources": {"namespaceSelector": here}},
        },
    ]


def _mutation(storage: BridgeStorage) -> str:
    """In CEL: a patch that is merged into the pod by name, as `kubectl apply --server-side` would."""
    variables = ", ".join(
        f"Object.spec.containers.env{{name: {json.dumps(name)}, value: {json.dumps(value)}}}"
        for name, value in storage.pod_environment().items()
    )
    mount = f'Object.spec.containers.volumeMounts{{name: "{AUTHORITY}", mountPath: "{AUTHORITY_FOLDER}"}}'
    config_map = f'Object.spec.volumes.configMap{{name: "{AUTHORITY}"}}'
    return f"""Object{{spec: Object.spec{{
        containers: object.spec.containers.map(container, Object.spec.containers{{
            name: container.name, env: [{variables}], volumeMounts: [{mount}]}}),
        volumes: [Object.spec.volumes{{name: "{AUTHORITY}", configMap: {config_map}}}]}}}}"""


def _free_ports(address: str) -> tuple[int, int]:
    with socket.socket() as first, socket.socket() as second:
        first.bind((address, 0))
        second.bind((address, 0))
        return int(first.getsockname()[1]), int(second.getsockname()[1])


def _bucket_made(emulator: str) -> bool:
    try:
        url = f"{emulator}/storage/v1/b?project={BUCKET}"
        return httpx.post(url, json={"name": BUCKET}, trust_env=False).is_success
    except httpx.TransportError:
        return False


def _listens(url: str) -> bool:
    host, port = url.removeprefix("http://").split(":")
    with socket.socket() as client:
        return client.connect_ex((host, int(port))) == 0
