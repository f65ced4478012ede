"""What the server says it serves: the documents from which clients learn kinds, verbs, versions and patch support."""

from __future__ import annotations

import platform
from typing import Any

from lockstep.local.kube.api_object import Json
from lockstep.local.kube.resource import RESOURCES, Resource

GIT_VERSION = "v1.36.0+lockstep"
REVIEWS_GROUP = "authorization.k8s.io"

_CORE_DOCUMENT = "/openapi/v3/api/v1"


def version() -> Json:
    return {
        "major": "1",
        "minor": "36",
        "gitVersion": GIT_VERSION,
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": platform.python_implementation(),
        "platform": f"{platform.system().lower()}/{platform.machine()}",
    }


def api_versions(address: str) -> Json:
    where = [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}]
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": where}


def api_groups() -> Json:
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_reviews_group()]}


def api_group() -> Json:
    return {"kind": "APIGroup", "apiVersion": "v1", **_reviews_group()}


def core_resources() -> Json:
    listed = [entry for resource in RESOURCES.values() for entry in _entries(resource)]
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "v1", "resources": listed}


def review_resources() -> Json:
    review = {
        "name": "selfsubjectaccessreviews",
        "singularName": "selfsubjectaccessreview",
        "namespaced": False,
        "kind": "SelfSubjectAccessReview",
        "verbs": ["create"],
    }
    group_version = f"{REVIEWS_GROUP}/v1"
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": [review]}


def openapi_index() -> Json:
    return {"paths": {"api/v1": {"serverRelativeURL": _CORE_DOCUMENT}}}


def openapi_document() -> Json:
    """Return as much of OpenAPI as kubectl needs: which kinds there are, and that the server validates fields."""
    paths = {_path(resource): _operations(resource) for resource in RESOURCES.values()}
    schemas = {_schema_name(resource): _schema(resource) for resource in RESOURCES.values()}
    info = {"title": "Kubernetes", "version": GIT_VERSION}
    return {"openapi": "3.0.0", "info": info, "paths": paths, "components": {"schemas": schemas}}


def _reviews_group() -> Json:
    served = {"groupVersion": f"{REVIEWS_GROUP}/v1", "version": "v1"}
    return {"name": REVIEWS_GROUP, "versions": [served], "preferredVersion": served}


def _entries(resource: Resource) -> list[Json]:
    common = {"singularName": "", "namespaced": resource.namespaced}
    whole: Json = common | {"name": resource.plural, "singularName": resource.singular, "kind": resource.kind}
    whole |= {"verbs": list(resource.verbs), "shortNames": list(resource.short_names)}
    if resource.categories:
        whole["categories"] = list(resource.categories)
    parts = [_subresource(resource, name, verbs) | common for name, verbs in resource.subresources]
    return [whole, *parts]


def _subresource(resource: Resource, name: str, verbs: tuple[str, ...]) -> Json:
    entry: Json = {"name": f"{resource.plural}/{name}", "kind": resource.kind, "verbs": list(verbs)}
    return entry | ({"group": "policy", "version": "v1", "kind": "Eviction"} if name == "eviction" else {})


def _path(resource: Resource) -> str:
    return f"/api/v1/{'namespaces/{namespace}/' if resource.namespaced else ''}{resource.plural}/{{name}}"


def _operations(resource: Resource) -> Json:
    parameters: list[Any] = [{"name": name, "in": "query"} for name in ("dryRun", "fieldManager", "fieldValidation")]
    return {"patch": {"parameters": parameters, "responses": {}, "x-kubernetes-group-version-kind": _kind(resource)}}


def _schema(resource: Resource) -> Json:
    return {"type": "object", "x-kubernetes-group-version-kind": [_kind(resource)]}


def _schema_name(resource: Resource) -> str:
    return f"io.k8s.api.core.v1.{resource.kind}"


def _kind(resource: Resource) -> Json:
    return {"group": "", "version": "v1", "kind": resource.kind}
