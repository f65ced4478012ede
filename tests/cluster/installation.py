"""Lockstep installed in the cluster under test, as `docker/kubernetes/` says, in namespaces of the test's own.

The connection that Airflow gets holds the token of the service account that supervises gangs and nothing else:
whatever passes with it passes with the least rights.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.cluster.administrator import Administrator

OBJECTS = Path(__file__).parents[2] / "docker" / "kubernetes"
SUPERVISOR, TRAINER = "lockstep-supervisor", "lockstep-trainer"


@dataclass(frozen=True, kw_only=True, slots=True)
class Installation:
    """`namespace` is that of the gangs; `connection` is the value of an AIRFLOW_CONN_… variable."""

    administrator: Administrator
    namespaces: Mapping[str, str]  # name in docker/kubernetes -> name here
    connection: str

    @property
    def namespace(self) -> str:
        return self.namespaces["lockstep"]

    @property
    def airflow_namespace(self) -> str:
        return self.namespaces["airflow"]

    def kubectl(self, *arguments: str, objects: Any = None, check: bool = True) -> str:
        """kubectl in the gangs' namespace, with all rights."""
        here = f"--namespace={self.namespace}"
        return self.administrator.kubectl(here, *arguments, objects=objects, check=check)

    def add(self, folder: Path) -> None:
        """What `kubectl apply -k` of that folder brings, in these namespaces."""
        self.administrator.apply(*(_moved(each, self.namespaces) for each in rendered(self.administrator, folder)))


@contextmanager
def installed(administrator: Administrator, folder: Path) -> Iterator[Installation]:
    """Install, and remove again; `folder` keeps the kubeconfig that the connection leads to."""
    suffix = uuid.uuid4().hex[:8]
    namespaces = {name: f"{name}-{suffix}" for name in ("lockstep", "airflow")}
    objects = [_moved(each, namespaces) for each in rendered(administrator, OBJECTS)]
    administrator.apply(*sorted(objects, key=lambda each: each["kind"] != "Namespace"))
    try:
        administrator.kubectl(
            *(
                "wait",
                "--for=create",
                "serviceaccount/default",
                f"--namespace={namespaces['lockstep']}",
                "--timeout=30s",
            )
        )
        kubeconfig = folder / f"supervisor-{suffix}.json"
        kubeconfig.write_text(json.dumps(_kubeconfig(administrator, namespaces["airflow"])))
        extra = {"kube_config_path": str(kubeconfig), "namespace": namespaces["lockstep"]}
        yield Installation(
            administrator=administrator,
            namespaces=namespaces,
            connection=json.dumps({"conn_type": "kubernetes", "extra": extra}),
        )
    finally:
        administrator.kubectl("delete", "namespace", *namespaces.values(), "--wait=false")


def rendered(administrator: Administrator, folder: Path) -> list[dict[str, Any]]:
    """The objects that `kubectl apply -k` would apply."""
    return list(yaml.safe_load_all(administrator.kubectl("kustomize", str(folder))))


def _moved(given: dict[str, Any], namespaces: Mapping[str, str]) -> dict[str, Any]:
    """The same object in the test's namespaces, so that a real installation in the same cluster is left alone."""
    metadata = dict(given["metadata"])
    key = "name" if given["kind"] == "Namespace" else "namespace"
    metadata[key] = namespaces[metadata[key]]
    moved = {**given, "metadata": metadata}
    if "subjects" in given:
        moved["subjects"] = [
            {**subject, "namespace": namespaces[subject["namespace"]]} for subject in given["subjects"]
        ]
    return moved


def _kubeconfig(administrator: Administrator, namespace: str) -> dict[str, Any]:
    token = administrator.kubectl("create", "token", SUPERVISOR, f"--namespace={namespace}", "--duration=1h").strip()
    flat = ("config", "view", "--raw", "--flatten", "--minify", "--output=json")
    config: dict[str, Any] = json.loads(administrator.kubectl(*flat))
    return {**config, "users": [{"name": config["users"][0]["name"], "user": {"token": token}}]}
