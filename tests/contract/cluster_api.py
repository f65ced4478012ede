"""A cluster as the contract suite sees it: the real `kubernetes` client, one namespace, one image with Python in it.

Waiting is done by watching, so that a test ends as soon as what it waits for is there.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from kubernetes.client import ApiClient, ApiException, CoreV1Api, V1Pod
from kubernetes.config import new_client_from_config
from kubernetes.watch import Watch

WAIT_S = 60
BEHIND = 504  # "Too large resource version"
PYTHON = ("python", "-uc")


@dataclass(frozen=True, kw_only=True)
class ClusterApi:
    """Any cluster that can run `python -c …` in `image`."""

    client: ApiClient
    core: CoreV1Api
    namespace: str
    image: str
    kubeconfig: Path

    def manifest(self, code: str = "print('hello')", *, name: str = "", container: Any = None, **spec: Any) -> Any:
        """A pod that runs `code`; `container` and `spec` say what matters to the test."""
        base = {"name": "base", "image": self.image, "command": [*PYTHON, code]} | (container or {})
        labels = {"test": "contract"}
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name or unique("pod"), "labels": labels},
            "spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 5, "containers": [base]} | spec,
        }

    def create(self, manifest: Any) -> V1Pod:
        return self.core.create_namespaced_pod(self.namespace, manifest)

    def run(self, code: str = "print('hello')", **options: Any) -> V1Pod:
        """Create a pod and wait for its end."""
        return self.ended(self.create(self.manifest(code, **options)).metadata.name)

    def read(self, name: str) -> V1Pod:
        return self.core.read_namespaced_pod(name, self.namespace)

    def log(self, name: str, **query: Any) -> str:
        return self.core.read_namespaced_pod_log(name, self.namespace, _preload_content=False, **query).data.decode()

    def ended(self, name: str) -> V1Pod:
        return self.seen(name, lambda pod: pod.status.phase in ("Succeeded", "Failed"), "ended")

    def running(self, name: str) -> V1Pod:
        return self.seen(name, lambda pod: pod.status.phase == "Running", "running")

    def seen(self, name: str, holds: Callable[[V1Pod], bool], what: str) -> V1Pod:
        """Wait until the pod is as described; fails with its last status."""
        last = None
        for event in self.watch(name):
            last = event["object"]
            if event["type"] != "DELETED" and holds(last):
                return last
        raise AssertionError(f"{name} was not seen {what} within {WAIT_S} s; last status: {last and last.status}")

    def version(self) -> str:
        """The version of the namespace's pods now: what a watch goes on from."""
        return str(self.core.list_namespaced_pod(self.namespace).metadata.resource_version)

    def gone(self, name: str) -> None:
        """Wait until there is no pod of that name."""
        listed = self.core.list_namespaced_pod(self.namespace, field_selector=f"metadata.name={name}")
        if listed.items:
            self.last_state(name, since=listed.metadata.resource_version)

    def last_state(self, name: str, *, since: str) -> V1Pod:
        """Wait until the pod is deleted and return what was last seen of it; `since` is a version before that."""
        for event in self.watch(name, resource_version=since):
            if event["type"] == "DELETED":
                return event["object"]
        raise AssertionError(f"{name} was not deleted within {WAIT_S} s")

    def watch(self, name: str, **query: Any) -> Iterator[Any]:
        selector = f"metadata.name={name}"
        options = {"field_selector": selector, "timeout_seconds": WAIT_S, **query}
        yield from _streamed(self.core.list_namespaced_pod, self.namespace, options)

    def logged(self, name: str, text: str) -> None:
        """Wait until the pod has printed `text`."""
        self.seen(name, lambda pod: pod.status.phase != "Pending", "started")
        response = self.core.read_namespaced_pod_log(name, self.namespace, follow=True, _preload_content=False)
        seen = b""
        for piece in response.stream(amt=None):
            seen += piece
            if text.encode() in seen:
                response.close()
                return
        raise AssertionError(f"{name} never printed {text!r}, only {seen!r}")

    def event(self, about: str, reason: str) -> Any:
        """Wait for an event of that reason about an object of that name."""
        selector = f"involvedObject.name={about}"
        options = {"field_selector": selector, "timeout_seconds": WAIT_S}
        for each in _streamed(self.core.list_namespaced_event, self.namespace, options):
            if each["object"].reason == reason:
                return each["object"]
        raise AssertionError(f"no event {reason} about {about}")


def _streamed(listing: Any, namespace: str, options: dict[str, Any]) -> Iterator[Any]:
    """The events of a watch; begun again where a busy server's cache is behind what it has stored itself."""
    try:
        yield from Watch().stream(listing, namespace, **options)
    except ApiException as refusal:
        if refusal.status != BEHIND:
            raise
        time.sleep(1)  # as the server asks for
        yield from Watch().stream(listing, namespace, **options)


@contextmanager
def api_of(kubeconfig: Path, image: str, namespace: str = "default") -> Iterator[ClusterApi]:
    """A client of the cluster that a kubeconfig leads to, closed at the end."""
    with new_client_from_config(str(kubeconfig)) as client:
        yield ClusterApi(client=client, core=CoreV1Api(client), namespace=namespace, image=image, kubeconfig=kubeconfig)


def unique(prefix: str) -> str:
    return f"{prefix}-{uuid.uuid4().hex[:8]}"


def container_state(pod: V1Pod) -> Any:
    return pod.status.container_statuses[0].state


def condition(pod: V1Pod, kind: str) -> Any:
    return next((each for each in pod.status.conditions or [] if each.type == kind), None)


@contextmanager
def refused(code: int, reason: str) -> Iterator[dict[str, Any]]:
    """Expect a refusal in Kubernetes' Status form; what it says is in the dictionary afterwards."""
    status: dict[str, Any] = {}
    with pytest.raises(ApiException) as caught:
        yield status
    status |= json.loads(caught.value.body)
    assert (status["kind"], status["code"], status["reason"]) == ("Status", code, reason), status
