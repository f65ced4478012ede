"""The HTTP routes: parse a request, ask the registry or the store, render the answer.

Each endpoint is one resource path of Kubernetes; which verb a method means is decided here and nowhere else.
"""

from __future__ import annotations

import hmac
import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from starlette.applications import Starlette
from starlette.endpoints import HTTPEndpoint
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from lockstep.local.kube import discovery
from lockstep.local.kube.api_object import Json, name_of, namespace_of, parse_timestamp, version_of
from lockstep.local.kube.container_log import LogQuery
from lockstep.local.kube.kubelet import Kubelet
from lockstep.local.kube.list_query import ListQuery, list_query, number, page, truth
from lockstep.local.kube.object_store import ObjectStore
from lockstep.local.kube.patch import apply_patch
from lockstep.local.kube.registry import DeleteOptions, Registry
from lockstep.local.kube.resource import PODS, RESOURCES, Resource
from lockstep.local.kube.schema import decode
from lockstep.local.kube.status_error import (
    FieldError,
    StatusError,
    bad_request,
    invalid,
    invalid_value,
    method_not_allowed,
    no_such_resource,
    not_supported,
    unauthorized,
    unsupported_media_type,
)
from lockstep.local.kube.table import table
from lockstep.local.kube.watch_stream import watch_stream

_WITHOUT_TOKEN = ("/healthz", "/livez", "/readyz", "/version")


def application(registry: Registry, kubelet: Kubelet, token: str, address: str) -> Starlette:
    """Return the API as an ASGI application; `address` is the host and port that discovery names."""
    app = Starlette(
        routes=_ROUTES,
        middleware=[Middleware(BearerToken, token=token)],
        exception_handlers={StatusError: _refused, HTTPException: _no_route, Exception: _broken},
    )
    app.state.registry = registry
    app.state.kubelet = kubelet
    app.state.address = address
    return app


class BearerToken:
    """Lets through who shows the token; health and version are public, as Kubernetes' default roles have it."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._expected = f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] not in _WITHOUT_TOKEN and not self._is_known(scope):
            await _status(unauthorized())(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _is_known(self, scope: Scope) -> bool:
        shown = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
        return hmac.compare_digest(shown, self._expected)


class _Endpoint(HTTPEndpoint):
    """What the endpoints of resources share: who is asked, about what."""

    async def method_not_allowed(self, request: Request) -> Response:
        raise method_not_allowed()


class Collection(_Endpoint):
    """`/api/v1/namespaces/{namespace}/{plural}`, and the same without a namespace."""

    async def get(self, request: Request) -> Response:
        resource, namespace = _resource(request, "list"), _namespace(request)
        query = list_query(resource, request.query_params)
        if query.watch:
            return _watch_response(request, resource, namespace, query)
        items, more = page(_store(request).list(resource, namespace), query)
        return JSONResponse(_rendered_list(request, resource, items, more))

    async def post(self, request: Request) -> Response:
        resource, namespace = _resource(request, "create"), _namespace(request)
        if resource.namespaced and not namespace:
            raise method_not_allowed()
        item, warnings = _decoded(request, resource, await _json_body(request))
        made = _registry(request).create(resource, namespace, item, dry_run=_is_dry_run(request))
        return _item_response(request, resource, made, code=201, warnings=warnings)

    async def delete(self, request: Request) -> Response:
        resource, namespace = _resource(request, "deletecollection"), _namespace(request)
        query, options = list_query(resource, request.query_params), await _delete_options(request)
        items, _ = page(_store(request).list(resource, namespace), query)
        dry_run = _is_dry_run(request)
        deleted = [
            _registry(request).delete(resource, namespace_of(item), name_of(item), options, dry_run=dry_run)
            for item in items
        ]
        return JSONResponse(_rendered_list(request, resource, deleted, {}))


class Item(_Endpoint):
    """`…/{plural}/{name}`."""

    async def get(self, request: Request) -> Response:
        resource = _resource(request, "get")
        return _item_response(request, resource, _named(request, resource))

    async def put(self, request: Request) -> Response:
        resource = _resource(request, "update")
        item, warnings = _decoded(request, resource, await _json_body(request))
        return _item_response(request, resource, self._update(request, resource, item), warnings=warnings)

    async def patch(self, request: Request) -> Response:
        resource = _resource(request, "patch")
        patched = apply_patch(_named(request, resource), await _json_body(request), _media_type(request))
        item, warnings = _decoded(request, resource, patched)
        return _item_response(request, resource, self._update(request, resource, item), warnings=warnings)

    async def delete(self, request: Request) -> Response:
        resource = _resource(request, "delete")
        place, options = (_namespace(request), request.path_params["name"]), await _delete_options(request)
        deleted = _registry(request).delete(resource, *place, options, dry_run=_is_dry_run(request))
        return _item_response(request, resource, deleted)

    def _update(self, request: Request, resource: Resource, item: Json, *, status: bool = False) -> Json:
        place = (_namespace(request), request.path_params["name"])
        return _registry(request).update(resource, *place, item, status=status, dry_run=_is_dry_run(request))


class ItemStatus(Item):
    """`…/{plural}/{name}/status`: the same object, of which only the status may change."""

    async def delete(self, request: Request) -> Response:
        raise method_not_allowed()

    def _update(self, request: Request, resource: Resource, item: Json, *, status: bool = True) -> Json:
        return super()._update(request, resource, item, status=True)


class PodLog(_Endpoint):
    """`…/pods/{name}/log`."""

    async def get(self, request: Request) -> Response:
        pod = _store(request).get(PODS, request.path_params["namespace"], request.path_params["name"])
        query = _log_query(request.query_params)
        _check_has_log(pod, request.query_params)
        if (log := _kubelet(request).log(pod)) is None:
            return PlainTextResponse("")
        return StreamingResponse(log.read(query), media_type="text/plain")


class PodEviction(_Endpoint):
    """`…/pods/{name}/eviction`."""

    async def post(self, request: Request) -> Response:
        options = _options_from((await _json_body(request)).get("deleteOptions") or {}, {})
        _registry(request).evict(request.path_params["namespace"], request.path_params["name"], options)
        return JSONResponse(_success(), status_code=201)


async def _access_review(request: Request) -> Response:
    """Answer yes: who has the token may do everything. `kubectl auth can-i` asks in protobuf, so it gets no echo."""
    if "protobuf" in _media_type(request):
        return JSONResponse(_allowed({}), status_code=201)
    body = await _json_body(request)
    spec = body.get("spec") or {}
    if bool(spec.get("resourceAttributes")) == bool(spec.get("nonResourceAttributes")):
        text = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        raise invalid("SelfSubjectAccessReview", "", [invalid_value("spec.resourceAttributes", None, text)])
    return JSONResponse(_allowed(spec), status_code=201)


def _allowed(spec: Json) -> Json:
    kind = {"kind": "SelfSubjectAccessReview", "apiVersion": f"{discovery.REVIEWS_GROUP}/v1"}
    status = {"allowed": True, "reason": "the token of the one-machine API may do everything"}
    return kind | {"metadata": {}, "spec": spec, "status": status}


def _document(make: Callable[[], Json]) -> Callable[[Request], Response]:
    return lambda request: JSONResponse(make())


def _api_versions(request: Request) -> Response:
    return JSONResponse(discovery.api_versions(request.app.state.address))


def _healthy(request: Request) -> Response:
    return PlainTextResponse("ok")


_REVIEWS = f"/apis/{discovery.REVIEWS_GROUP}"
_ROUTES = [
    *(Route(path, _healthy) for path in ("/healthz", "/livez", "/readyz")),
    Route("/version", _document(discovery.version)),
    Route("/api", _api_versions),
    Route("/apis", _document(discovery.api_groups)),
    Route("/api/v1", _document(discovery.core_resources)),
    Route("/openapi/v3", _document(discovery.openapi_index)),
    Route("/openapi/v3/api/v1", _document(discovery.openapi_document)),
    Route(_REVIEWS, _document(discovery.api_group)),
    Route(f"{_REVIEWS}/v1", _document(discovery.review_resources)),
    Route(f"{_REVIEWS}/v1/selfsubjectaccessreviews", _access_review, methods=["POST"]),
    Route("/api/v1/namespaces/{namespace}/pods/{name}/log", PodLog),
    Route("/api/v1/namespaces/{namespace}/pods/{name}/eviction", PodEviction),
    Route("/api/v1/namespaces/{namespace}/{plural}/{name}/status", ItemStatus),
    Route("/api/v1/namespaces/{namespace}/{plural}/{name}", Item),
    Route("/api/v1/{plural}/{name}/status", ItemStatus),
    Route("/api/v1/namespaces/{namespace}/{plural}", Collection),
    Route("/api/v1/{plural}/{name}", Item),
    Route("/api/v1/{plural}", Collection),
]


def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, StatusError), "registered for that class only"
    return _status(error)


def _no_route(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException), "registered for that class only"
    return _status(no_such_resource() if error.status_code == 404 else method_not_allowed())


def _broken(request: Request, error: Exception) -> Response:
    message = f"Internal error occurred: {type(error).__name__}: {error}"
    return _status(StatusError(500, "InternalError", message))


def _status(error: StatusError) -> JSONResponse:
    return JSONResponse(error.status, status_code=error.code)


def _success() -> Json:
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}


def _registry(request: Request) -> Registry:
    registry: Registry = request.app.state.registry
    return registry


def _store(request: Request) -> ObjectStore:
    return _registry(request).store


def _kubelet(request: Request) -> Kubelet:
    kubelet: Kubelet = request.app.state.kubelet
    return kubelet


def _resource(request: Request, verb: str) -> Resource:
    resource = RESOURCES.get(request.path_params["plural"])
    if resource is None or ("namespace" in request.path_params and not resource.namespaced):
        raise no_such_resource()
    if "name" in request.path_params and resource.namespaced and "namespace" not in request.path_params:
        raise no_such_resource()
    if request.url.path.endswith("/status") and "status" not in dict(resource.subresources):
        raise no_such_resource()
    if verb not in resource.verbs:
        raise method_not_allowed()
    return resource


def _namespace(request: Request) -> str:
    return str(request.path_params.get("namespace", ""))


def _named(request: Request, resource: Resource) -> Json:
    return _store(request).get(resource, _namespace(request), request.path_params["name"])


def _media_type(request: Request) -> str:
    return request.headers.get("content-type", "application/json").split(";")[0].strip().lower()


async def _json_body(request: Request) -> Any:
    if "protobuf" in _media_type(request):
        raise unsupported_media_type(("application/json",))
    try:
        return json.loads(await request.body())
    except ValueError as error:
        raise bad_request(f"couldn't get version/kind; json parse error: {error}") from error


def _decoded(request: Request, resource: Resource, body: Any) -> tuple[Json, list[str]]:
    """Return the object, and the warnings about fields that were dropped; strict validation refuses those."""
    item, unknown = decode(resource, body)
    warnings = [f'unknown field "{path}"' for path in unknown]
    validation = request.query_params.get("fieldValidation", "Warn")
    if warnings and validation == "Strict":
        text = ", ".join(warnings)
        raise bad_request(
            f'{resource.kind} in version "v1" cannot be handled as a {resource.kind}: strict decoding error: {text}'
        )
    return item, warnings if validation == "Warn" else []


def _is_dry_run(request: Request) -> bool:
    return bool(request.query_params.get("dryRun"))


async def _delete_options(request: Request) -> DeleteOptions:
    body = await _json_body(request) if await request.body() else {}
    return _options_from(body if isinstance(body, dict) else {}, request.query_params)


def _options_from(body: Json, query: Mapping[str, str]) -> DeleteOptions:
    preconditions = body.get("preconditions") or {}
    grace_s = body.get("gracePeriodSeconds")
    orphan = body.get("orphanDependents")
    given = body.get("propagationPolicy") or query.get("propagationPolicy") or ("Orphan" if orphan else "Background")
    grace_s = number(query, "gracePeriodSeconds") if grace_s is None else grace_s
    _refuse_options(grace_s, given)
    return DeleteOptions(
        grace_s=grace_s,
        uid=preconditions.get("uid"),
        resource_version=preconditions.get("resourceVersion"),
        propagation=given,
    )


def _refuse_options(grace_s: int | None, propagation: str) -> None:
    if propagation not in ("Background", "Foreground", "Orphan"):
        supported = ("Background", "Foreground", "Orphan")
        raise invalid("DeleteOptions", "", [not_supported("propagationPolicy", propagation, supported)])
    if grace_s is not None and grace_s < 0:
        text = "must be greater than or equal to 0"
        raise invalid("DeleteOptions", "", [invalid_value("gracePeriodSeconds", grace_s, text)])


def _wants_table(request: Request) -> bool:
    return any("as=Table" in each and "v=v1" in each for each in request.headers.get("accept", "").split(","))


def _item_response(
    request: Request, resource: Resource, item: Json, *, code: int = 200, warnings: Sequence[str] = ()
) -> Response:
    response = JSONResponse(_rendered(request, resource, item), status_code=code)
    for warning in warnings:
        response.headers.append("Warning", f"299 - {json.dumps(warning)}")
    return response


def _rendered(request: Request, resource: Resource, item: Json) -> Json:
    if not _wants_table(request):
        return item
    include = request.query_params.get("includeObject", "Metadata")
    return table(resource, [item], str(version_of(item)), include)


def _rendered_list(request: Request, resource: Resource, items: list[Json], more: Json) -> Json:
    version = str(_store(request).version)
    if _wants_table(request):
        shown = table(resource, items, version, request.query_params.get("includeObject", "Metadata"))
        return shown | {"metadata": shown["metadata"] | more}
    bare = [{key: value for key, value in item.items() if key not in ("kind", "apiVersion")} for item in items]
    metadata = {"resourceVersion": version} | more
    return {"kind": f"{resource.kind}List", "apiVersion": "v1", "metadata": metadata, "items": bare}


def _watch_response(request: Request, resource: Resource, namespace: str, query: ListQuery) -> Response:
    def render(item: Json) -> Json:
        return _rendered(request, resource, item)

    return StreamingResponse(
        watch_stream(_store(request), resource, namespace, query, render), media_type="application/json"
    )


def _log_query(given: Mapping[str, str]) -> LogQuery:
    seconds, moment = number(given, "sinceSeconds"), given.get("sinceTime")
    tail_lines, limit_bytes = number(given, "tailLines"), number(given, "limitBytes")
    if errors := _log_errors(seconds, moment, tail_lines, limit_bytes):
        raise invalid("PodLogOptions", "", errors)
    return LogQuery(
        follow=truth(given.get("follow")),
        timestamps=truth(given.get("timestamps")),
        since=time.time() - seconds if seconds is not None else _moment(moment),
        tail_lines=tail_lines,
        limit_bytes=limit_bytes,
    )


def _log_errors(
    seconds: int | None, moment: str | None, tail_lines: int | None, limit_bytes: int | None
) -> list[FieldError]:
    errors = []
    if seconds is not None and moment:
        text = "at most one of `sinceTime` or `sinceSeconds` may be specified"
        errors.append(FieldError(field="", reason="FieldValueForbidden", message=f"Forbidden: {text}"))
    least_values = (("sinceSeconds", seconds, 1), ("tailLines", tail_lines, 0), ("limitBytes", limit_bytes, 1))
    for field, value, least in least_values:
        if value is not None and value < least:
            errors.append(invalid_value(field, value, f"must be greater than {least - 1}"))
    return errors


def _moment(text: str | None) -> float | None:
    try:
        return parse_timestamp(text) if text else None
    except ValueError as error:
        raise bad_request(f'sinceTime: Invalid value: "{text}": expected RFC 3339') from error


def _check_has_log(pod: Json, given: Mapping[str, str]) -> None:
    container, name = pod["spec"]["containers"][0]["name"], name_of(pod)
    if given.get("container", container) != container:
        raise bad_request(f"container {given['container']} is not valid for pod {name}")
    if truth(given.get("previous", "false")):
        raise bad_request(f'previous terminated container "{container}" in pod "{name}" not found')
    if "nodeName" not in pod["spec"]:
        raise bad_request(f"pod {name} does not have a host assigned")
    state: Json = next((each["state"] for each in pod["status"].get("containerStatuses", ())), {"waiting": {}})
    if "waiting" in state:
        reason = state["waiting"].get("reason", "ContainerCreating")
        why = "trying and failing to pull image" if "Image" in reason else reason
        raise bad_request(f'container "{container}" in pod "{name}" is waiting to start: {why}')
