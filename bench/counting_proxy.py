"""Between the contenders and the API server: counts requests and bytes, and passes everything on unchanged.

It ends their TLS, since most of what a request costs its sender is the connection. Logs it answers itself, with a line
a second: kwok's nodes have no kubelet that could be asked for them.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import time
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import aiohttp
import trustme
from aiohttp import web
from yarl import URL

from bench.api import NO_TIMEOUT, Api

LARGEST_BODY_BYTES = 64 * 2**20
LOG_LINE_EVERY_S = 1.0
OF_THE_CONNECTION = {"Host", "Authorization", "Connection", "Content-Length", "Transfer-Encoding", "Date", "Server"}


@dataclass(slots=True)
class Counts:
    """`bytes_read` are those of the answers' bodies as they travel; `deletions` are seconds since the epoch."""

    requests: int = 0
    bytes_read: int = 0
    deletions: list[float] = field(default_factory=list)

    def since(self, before: Counts) -> Counts:
        return Counts(
            self.requests - before.requests,
            self.bytes_read - before.bytes_read,
            self.deletions[len(before.deletions) :],
        )

    def now(self) -> Counts:
        return Counts(self.requests, self.bytes_read, list(self.deletions))


class CountingProxy:
    """Use `serving()`; `counts` may be read at any time."""

    def __init__(self, api: Api) -> None:
        self.counts = Counts()
        self._api = api
        self._ended = defaultdict[str, asyncio.Event](asyncio.Event)

    @asynccontextmanager
    async def serving(self, folder: Path) -> AsyncIterator[Path]:
        """The kubeconfig that leads here; it shows a token that means nothing, as the proxy has rights of its own."""
        authority = trustme.CA()
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        authority.issue_cert("127.0.0.1").configure_cert(tls)
        authority.cert_pem.write_to_path(folder / "proxy-ca.pem")
        app = web.Application(client_max_size=LARGEST_BODY_BYTES)
        app.router.add_route("*", "/{path:.*}", self._handle)
        runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=1.0)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls, backlog=4096).start()
            yield _write_kubeconfig(folder, runner.addresses[0][1])
        finally:
            await runner.cleanup()

    def end_log(self, pod: str) -> None:
        """What its container has logged is all that there will be."""
        self._ended[pod].set()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        self.counts.requests += 1
        if request.method == "DELETE":
            self.counts.deletions.append(time.time())
        try:
            return await (self._log(request) if request.path.endswith("/log") else self._pass_on(request))
        except ConnectionResetError:
            return web.Response()  # nobody listens any more

    async def _pass_on(self, request: web.Request) -> web.StreamResponse:
        async with self._api.session.request(
            request.method,
            URL(self._api.url + request.raw_path, encoded=True),
            headers={name: value for name, value in request.headers.items() if name not in OF_THE_CONNECTION},
            data=await request.read(),
            skip_auto_headers=("Accept", "Accept-Encoding", "Content-Type", "User-Agent"),
            auto_decompress=False,
            timeout=NO_TIMEOUT,
        ) as answer:
            response = web.StreamResponse(status=answer.status, headers=_passed(answer))
            await response.prepare(request)
            async for piece in answer.content.iter_any():
                await self._write(response, piece)
            await response.write_eof()
            return response

    async def _log(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        await response.prepare(request)
        await self._write(response, _log_line())
        pod = request.path.split("/")[-2]
        while request.query.get("follow") == "True" and not await self._log_ends(pod, LOG_LINE_EVERY_S):
            await self._write(response, _log_line())
        await response.write_eof()
        return response

    async def _log_ends(self, pod: str, within_s: float) -> bool:
        try:
            await asyncio.wait_for(self._ended[pod].wait(), within_s)
        except TimeoutError:
            return False
        return True

    async def _write(self, response: web.StreamResponse, piece: bytes) -> None:
        self.counts.bytes_read += len(piece)
        await response.write(piece)


def _passed(answer: aiohttp.ClientResponse) -> dict[str, str]:
    return {name: value for name, value in answer.headers.items() if name not in OF_THE_CONNECTION}


def _log_line() -> bytes:
    at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f000Z")
    return f"{at} step 812: loss 0.1234, 4.2 steps/s\n".encode()


def _write_kubeconfig(folder: Path, port: int) -> Path:
    cluster = {"server": f"https://127.0.0.1:{port}", "certificate-authority": str(folder / "proxy-ca.pem")}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "counted", "cluster": cluster}],
        "users": [{"name": "contender", "user": {"token": "unused"}}],
        "contexts": [{"name": "counted", "context": {"cluster": "counted", "user": "contender"}}],
        "current-context": "counted",
    }
    file = folder / "kubeconfig"
    file.write_text(json.dumps(config))
    return file
