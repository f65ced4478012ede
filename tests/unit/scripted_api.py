"""A Kubernetes API that answers as the test says, to show what becomes of answers that a well API never gives."""

from __future__ import annotations

import asyncio
import json
from collections import Counter, defaultdict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from lockstep.kubernetes_cluster import KubernetesCluster


@dataclass(frozen=True, kw_only=True)
class Answer:
    """`lines` are sent one by one; where `held` is set the stream then stays open, as a watch does.

    One that is `lost` never comes: the connection is closed.
    """

    status: int = 200
    lines: tuple[str | bytes, ...] = ()
    held: bool = False
    lost: bool = False


def document(body: dict[str, Any], status: int = 200) -> Answer:
    return Answer(status=status, lines=(json.dumps(body),))


def refusal(status: int, reason: str, message: str = "") -> Answer:
    said = message or f"because {reason}"
    return document({"kind": "Status", "code": status, "reason": reason, "message": said}, status)


def pod_list(*pods: dict[str, Any]) -> Answer:
    return document({"kind": "PodList", "metadata": {"resourceVersion": "1"}, "items": list(pods)})


def changes(*events: dict[str, Any]) -> Answer:
    return Answer(lines=tuple(json.dumps(event) + "\n" for event in events), held=True)


def pod_object(rank: int = 0, *, owner: str = "owner") -> dict[str, Any]:
    return {
        "kind": "Pod",
        "metadata": {
            "name": f"w{rank}",
            "uid": f"uid-{rank}",
            "resourceVersion": "2",
            "labels": {"lockstep/rank": str(rank), "lockstep/attempt": "1"},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Service", "name": "gang", "uid": owner}],
        },
        "spec": {"containers": [{"name": "worker", "image": "i"}]},
        "status": {"phase": "Running"},
    }


@dataclass(kw_only=True)
class ScriptedApi:
    """`script[kind]` are the answers to requests of a kind (list, watch, log, create, …); the last one is repeated."""

    script: dict[str, deque[Answer]] = field(default_factory=lambda: defaultdict(deque))
    requests: Counter[str] = field(default_factory=Counter)
    queries: dict[str, dict[str, str]] = field(default_factory=dict)
    paths: dict[str, str] = field(default_factory=dict)
    bodies: dict[str, Any] = field(default_factory=dict)

    def answers(self, kind: str, *answers: Answer) -> None:
        self.script[kind].extend(answers)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        kind = _kind(request)
        self.requests[kind] += 1
        self.queries[kind] = dict(request.query)
        self.paths[kind] = request.path
        if request.can_read_body:
            self.bodies[kind] = await request.json()
        scripted = self.script[kind]
        return await _sent(scripted.popleft() if len(scripted) > 1 else scripted[0], request)


def _kind(request: web.Request) -> str:
    if request.path.endswith("/log"):
        return "log"
    if request.method == "GET":
        many = request.path.endswith("/pods")
        return ("watch" if request.query.get("watch") else "list") if many else "read"
    return {"POST": "create", "DELETE": "delete"}[request.method]


async def _sent(answer: Answer, request: web.Request) -> web.StreamResponse:
    lines = [line if isinstance(line, bytes) else line.encode() for line in answer.lines]
    headers = {"Content-Type": "application/json" if b"".join(lines).startswith(b"{") else "text/plain"}
    response = web.StreamResponse(status=answer.status, headers=headers)
    if answer.lost and request.transport is not None:
        request.transport.close()
    await response.prepare(request)
    for line in lines:
        await response.write(line)
    if answer.held:
        await asyncio.Event().wait()
    return response


@asynccontextmanager
async def scripted_cluster(
    api: ScriptedApi, monkeypatch: pytest.MonkeyPatch, namespace: str = "default"
) -> AsyncIterator[KubernetesCluster]:
    """The cluster adapter, connected to `api` by an Airflow connection."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", api.handle)
    server = TestServer(app)
    await server.start_server(shutdown_timeout=0)
    kubeconfig = {
        "clusters": [{"name": "c", "cluster": {"server": str(server.make_url(""))}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    extra = {"conn_type": "kubernetes", "extra": {"kube_config": json.dumps(kubeconfig)}}
    monkeypatch.setenv("AIRFLOW_CONN_SCRIPTED", json.dumps(extra))
    cluster = KubernetesCluster(conn_id="scripted", namespace=namespace)
    try:
        async with cluster.connected():
            yield cluster
    finally:
        await server.close()
