"""From a pod's container and an image to the process to start: arguments, environment, working directory.

Pure, and as the kubelet does it: `$(VAR)` is expanded, `valueFrom` is resolved, and what cannot be resolved (there are
no Secrets or ConfigMaps here) keeps the container from being created.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kubernetes.utils.quantity import parse_quantity

from lockstep.local.kube.api_object import Json, name_of, namespace_of, uid_of
from lockstep.local.kube.image import Image

_REFERENCE = re.compile(r"\$\$|\$\(([^()]*)\)")
_MAP_FIELD = re.compile(r"metadata\.(labels|annotations)\['(.+)'\]")
_SYSTEM_PATH = ("/usr/bin", "/bin")


class CannotCreate(Exception):
    """The container cannot be created; `reason` is the waiting reason that the kubelet shows."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, kw_only=True, slots=True)
class ContainerSpec:
    """A process to start."""

    arguments: tuple[str, ...]
    env: Mapping[str, str]
    working_directory: str


def container_spec(pod: Json, image: Image, machine_env: Mapping[str, str]) -> ContainerSpec:
    """Return what to start for the pod's one container; raises CannotCreate.

    `machine_env` is what every process of the machine gets; the image's variables come over it, then the container's.
    """
    container = pod["spec"]["containers"][0]
    own = container_env(pod, container)
    path = ":".join((*image.path, *_SYSTEM_PATH))
    return ContainerSpec(
        arguments=_arguments(container, image, own),
        env={**machine_env, "PATH": path, "HOSTNAME": host_name(pod), **image.env, **own},
        working_directory=container.get("workingDir") or image.working_directory,
    )


def host_name(pod: Json) -> str:
    return str(pod["spec"].get("hostname") or name_of(pod))[:63].rstrip("-.")


def _arguments(container: Json, image: Image, env: Mapping[str, str]) -> tuple[str, ...]:
    command = container.get("command") or image.entrypoint
    if not (words := (*command, *container.get("args", ()))):
        raise CannotCreate("CreateContainerError", f"no command specified, and image {image.name} has no entrypoint")
    return tuple(expand(word, env) for word in words)


def container_env(pod: Json, container: Json) -> dict[str, str]:
    """Return the container's own variables, each expanded with those before it; raises CannotCreate."""
    for source in container.get("envFrom", ()):
        _refuse_missing(source)
    env: dict[str, str] = {}
    for entry in container.get("env", ()):
        if (value := _value(pod, container, entry, env)) is not None:
            env[entry["name"]] = value
    return env


def expand(text: str, env: Mapping[str, str]) -> str:
    """Replace `$(NAME)` by its value where there is one; `$$` is a literal dollar."""

    def replacement(found: re.Match[str]) -> str:
        return "$" if found[0] == "$$" else env.get(found[1], found[0])

    return _REFERENCE.sub(replacement, text)


def _value(pod: Json, container: Json, entry: Json, env: Mapping[str, str]) -> str | None:
    source = entry.get("valueFrom") or {}
    if "fieldRef" in source:
        return field_value(pod, source["fieldRef"]["fieldPath"])
    if "resourceFieldRef" in source:
        return _resource_value(container, source["resourceFieldRef"]["resource"])
    if source:
        _refuse_missing(source)
        return None
    return expand(entry.get("value", ""), env)


def _refuse_missing(source: Json) -> None:
    for key, kind in (
        ("secretKeyRef", "secret"),
        ("secretRef", "secret"),
        ("configMapKeyRef", "configmap"),
        ("configMapRef", "configmap"),
    ):
        if key in source and not source[key].get("optional", False):
            raise CannotCreate("CreateContainerConfigError", f'{kind} "{source[key].get("name", "")}" not found')


def field_value(pod: Json, path: str) -> str:
    """Return what a `fieldRef` names; raises CannotCreate for a path that the downward API does not have."""
    if found := _MAP_FIELD.fullmatch(path):
        return str((pod["metadata"].get(found[1]) or {}).get(found[2], ""))
    known = {
        "metadata.name": name_of(pod),
        "metadata.namespace": namespace_of(pod),
        "metadata.uid": uid_of(pod),
        "spec.nodeName": pod["spec"].get("nodeName", ""),
        "spec.serviceAccountName": pod["spec"].get("serviceAccountName", ""),
        "status.hostIP": "127.0.0.1",
        "status.hostIPs": "127.0.0.1",
        "status.podIP": "127.0.0.1",
        "status.podIPs": "127.0.0.1",
    }
    if path not in known:
        raise CannotCreate("CreateContainerConfigError", f"unsupported fieldPath: {path}")
    return str(known[path])


def _resource_value(container: Json, resource: str) -> str:
    kind, _, name = resource.partition(".")
    given: Any = container.get("resources", {}).get(kind, {}).get(name)
    if given is None:
        raise CannotCreate("CreateContainerConfigError", f"container has no resource {resource}")
    return str(-(-parse_quantity(given) // 1))
