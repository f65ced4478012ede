"""A proxy in front of a real Kubernetes API that the test can cut, slow down, hold, or let answer wrongly.

It counts what passes: what the product asked for, and what the API has made of it. It runs in a thread of its own, so
that processes and event loops of the test can be stopped while it goes on.
"""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
import threading
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import aiohttp
import yaml
from aiohttp import web

T = TypeVar("T")

LOOPBACK = "127.0.0.1"
END_TO_END = frozenset({"content-type", "retry-after", "warning"})
WAIT_S = 60.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """A request: `kind` is verb and resource, as in "create pods"; it is the `number`-th of its kind, from 1."""

    kind: str
    number: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Fault:
    """What happens to one call. Where nothing is said, it is passed on and answered.

    `refuse` is a status answered in place of the API; with `lose_answer` the call is passed on, and the connection then
    closed without a word; an answer is broken off after `cut_after_s` or `cut_after_bytes`, or ends about there, with a
    line, as if it were whole (`politely`).
    """

    wait_s: float = 0.0
    refuse: int | None = None
    lose_answer: bool = False
    cut_after_s: float | None = None
    cut_after_bytes: int | None = None
    politely: bool = False


WELL = Fault()
Faults = Callable[[Call], Fault]


@dataclass(slots=True)
class Hold:
    """Calls that wait: `reached` is set as soon as there is one, `released` lets them end without an answer."""

    kind: str
    after: int
    answered: bool
    reached: threading.Event = field(default_factory=threading.Event)
    released: threading.Event = field(default_factory=threading.Event)

    def concerns(self, call: Call) -> bool:
        return call.kind == self.kind and call.number > self.after and not self.released.is_set()

    def await_reached(self) -> None:
        assert self.reached.wait(WAIT_S), f"nobody came to {self.kind} (after {self.after})"


class UnreliableApi:
    """Reached by `kubeconfig`, whose token it exchanges for the one of the API behind it. Use as a context manager."""

    def __init__(self, behind: Path, kubeconfig: Path) -> None:
        self.kubeconfig = kubeconfig
        self.faults: Faults = lambda call: WELL
        self.calls: list[Call] = []
        self.created: Counter[str] = Counter()
        self._ended: Counter[str] = Counter()
        self._token = 1
        self._holds: list[Hold] = []
        self._upstream = _Upstream.of(behind)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._session: aiohttp.ClientSession
        self._runner: web.AppRunner
        self._port = 0

    def __enter__(self) -> UnreliableApi:
        self._thread.start()
        self._await(self._start())
        self._write_kubeconfig()
        return self

    def __exit__(self, *_: object) -> None:
        for hold in self._holds:
            hold.released.set()
        self._await(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def forget(self) -> None:
        """Be well again, and count from the beginning."""
        self.faults = lambda call: WELL
        self.calls, self.created, self._ended = [], Counter(), Counter()

    def kinds(self) -> Counter[str]:
        """How often what was asked for."""
        return Counter(call.kind for call in list(self.calls))

    def hold(self, kind: str, *, after: int = 0, answered: bool = False) -> Hold:
        """Let no call of that kind end, once `after` of them have; with `answered` the API has done what it asks."""
        hold = Hold(kind, after, answered)
        self._holds.append(hold)
        return hold

    @contextmanager
    def away(self) -> Iterator[None]:
        """As long as the block runs, every connection is broken and none is accepted."""
        self._await(self._go_away())
        try:
            yield
        finally:
            self._await(self._listen())

    def cut(self) -> None:
        """Break every connection now; new ones are accepted."""
        self._loop.call_soon_threadsafe(self._break_connections)

    def expire_token(self) -> None:
        """From now on the token is refused; the kubeconfig has another."""
        self._token += 1
        self._write_kubeconfig()

    def _await(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(WAIT_S)

    def _write_kubeconfig(self) -> None:
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": {"server": f"http://{LOOPBACK}:{self._port}"}}],
            "users": [{"name": "u", "user": {"token": str(self._token)}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u", "namespace": "default"}}],
            "current-context": "x",
        }
        self.kubeconfig.write_text(yaml.safe_dump(content))

    async def _start(self) -> None:
        self._session = aiohttp.ClientSession(
            self._upstream.server,
            connector=aiohttp.TCPConnector(ssl=self._upstream.context, limit=0),
            timeout=aiohttp.ClientTimeout(total=None),
            auto_decompress=False,
        )
        app = web.Application(client_max_size=1 << 24)
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0, handler_cancellation=True)
        await self._runner.setup()
        await self._listen()

    async def _listen(self) -> None:
        site = web.TCPSite(self._runner, LOOPBACK, self._port, reuse_address=True)
        await site.start()
        self._port = site._server.sockets[0].getsockname()[1]  # type: ignore[union-attr]

    async def _go_away(self) -> None:
        for site in list(self._runner.sites):
            await site.stop()
        self._break_connections()

    def _break_connections(self) -> None:
        server = self._runner.server
        assert server is not None
        for connection in server.connections:
            _break(connection.transport)

    async def _stop(self) -> None:
        self._break_connections()
        await self._runner.cleanup()
        await self._session.close()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        call = self._count(request)
        answer = await self._answer(call, request)
        self._ended[call.kind] += 1
        return answer

    async def _answer(self, call: Call, request: web.Request) -> web.StreamResponse:
        fault = self.faults(call)
        await asyncio.sleep(fault.wait_s)
        if await self._held(call, request, answered=False):
            return web.Response()
        if request.headers.get("Authorization") != f"Bearer {self._token}":
            return _refusal(401)
        if fault.refuse is not None:
            return _refusal(fault.refuse)
        if request.method == "GET":
            return await self._read(request, fault)
        # What was asked for is done, and counted, even if nobody waits for the answer any more.
        answer = await asyncio.shield(asyncio.ensure_future(self._write(request, await request.read())))
        if fault.lose_answer:
            _break(request.transport)
        await self._held(call, request, answered=True)
        return answer

    async def _read(self, request: web.Request, fault: Fault) -> web.StreamResponse:
        async with self._session.get(request.rel_url, headers=self._headers(request)) as answer:
            response = web.StreamResponse(status=answer.status, headers=_end_to_end(answer))
            await response.prepare(request)
            whole = await _passed_on(answer, response, fault)
            if not (whole or fault.politely):
                _break(request.transport)
            if fault.lose_answer:
                _break(request.transport)
            return response

    async def _write(self, request: web.Request, body: bytes) -> web.Response:
        asked = {"headers": self._headers(request), "data": body}
        async with self._session.request(request.method, request.rel_url, **asked) as answer:
            said = await answer.read()
            if request.method == "POST" and answer.status == 201:
                self.created[json.loads(said)["metadata"]["name"]] += 1
            return web.Response(status=answer.status, headers=_end_to_end(answer), body=said)

    def _headers(self, request: web.Request) -> dict[str, str]:
        passed_on = {name: value for name in ("Accept", "Content-Type") if (value := request.headers.get(name))}
        return passed_on | {"Authorization": f"Bearer {self._upstream.token}"}

    async def _held(self, call: Call, request: web.Request, *, answered: bool) -> bool:
        """Whether the call was held; it then has no connection any more."""
        for hold in self._holds:
            if hold.answered == answered and hold.concerns(call):
                while self._ended[call.kind] < hold.after:  # noqa: ASYNC110 - the others are on their way
                    await asyncio.sleep(0.01)
                hold.reached.set()
                await asyncio.to_thread(hold.released.wait, WAIT_S)
                _break(request.transport)
                return True
        return False

    def _count(self, request: web.Request) -> Call:
        kind = _kind(request)
        call = Call(kind=kind, number=self.kinds()[kind] + 1)
        self.calls.append(call)
        return call


@dataclass(frozen=True, slots=True)
class _Upstream:
    """Where the API behind is, and how one is let in there."""

    server: str
    token: str
    context: ssl.SSLContext

    @classmethod
    def of(cls, kubeconfig: Path) -> _Upstream:
        content = yaml.safe_load(kubeconfig.read_text())
        cluster, user = content["clusters"][0]["cluster"], content["users"][0]["user"]
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        return cls(cluster["server"], user["token"], ssl.create_default_context(cadata=authority))


async def _passed_on(answer: aiohttp.ClientResponse, response: web.StreamResponse, fault: Fault) -> bool:
    """Whether it came to its end."""
    left = fault.cut_after_bytes
    try:
        async with asyncio.timeout(fault.cut_after_s):
            async for chunk in answer.content.iter_any():
                if left is None or left >= len(chunk):
                    await response.write(chunk)
                    left = None if left is None else left - len(chunk)
                else:
                    end = chunk.find(b"\n", left) + 1 if fault.politely else left
                    await response.write(chunk[:end])
                    return False
    except (TimeoutError, aiohttp.ClientError):
        return False
    return True


def _end_to_end(answer: aiohttp.ClientResponse) -> dict[str, str]:
    return {name: value for name, value in answer.headers.items() if name.lower() in END_TO_END}


def _break(transport: asyncio.BaseTransport | None) -> None:
    if isinstance(transport, asyncio.Transport):
        transport.abort()


def _refusal(status: int) -> web.Response:
    said = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": status,
        "message": f"says the test: {status}",
    }
    return web.json_response(said, status=status, headers={"Retry-After": "1"} if status == 429 else {})


def _kind(request: web.Request) -> str:
    """Verb and resource: "create pods", "watch pods", "read pods", "delete services", "read log"."""
    path = request.path.strip("/").split("/")
    place = path.index("namespaces") + 2 if "namespaces" in path else len(path) - 1
    resource, named = path[place], len(path) > place + 1
    if path[-1] == "log":
        return "read log"
    verbs = {"POST": "create", "DELETE": "delete", "PUT": "update", "PATCH": "update"}
    if request.method in verbs:
        return f"{verbs[request.method]} {resource}"
    if named:
        return f"read {resource}"
    return f"{'watch' if request.query.get('watch') in ('true', 'True', '1') else 'list'} {resource}"
