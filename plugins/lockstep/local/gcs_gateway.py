"""The gateway through which TensorFlow's own `gs://` reaches the Cloud Storage emulator.

TensorFlow has the hosts of Cloud Storage compiled in, but honours `https_proxy` and `CURL_CA_BUNDLE`. This proxy
answers `CONNECT` for those hosts, ends the TLS with a certificate of its own authority, and hands each request to the
emulator. It knows nothing of Cloud Storage's API; `certificates.py` makes the certificate.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import h11
from h11._headers import Headers

from lockstep.local.certificates import server_context

STORAGE_HOSTS = ("www.googleapis.com", "storage.googleapis.com")

_CHUNK_BYTES = 1 << 16
_HEAD_LIMIT_BYTES = 1 << 16
# TensorFlow sends `Transfer-Encoding: identity`, which no HTTP/1.1 server takes any more (RFC 9112 dropped it); the
# emulator answers 501, and TensorFlow tries again for ever.
_IDENTITY_ENCODING = re.compile(rb"(?im)^transfer-encoding:[ \t]*identity[ \t]*\r\n")
# Hop-by-hop or answered here: the two connections are framed independently of each other.
_NOT_FORWARDED = frozenset({b"connection", b"keep-alive", b"expect", b"proxy-authorization", b"proxy-connection"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Emulator:
    """Where the Cloud Storage emulator listens: plain HTTP."""

    host: str
    port: int

    @classmethod
    def at(cls, url: str) -> Emulator:
        """Parse `http://host:port`; raise `ValueError` for anything else."""
        parts = urlsplit(url)
        if parts.scheme != "http" or not parts.hostname or not parts.port:
            raise ValueError(f"the emulator's address must be http://host:port, got {url!r}")
        return cls(host=parts.hostname, port=parts.port)


@dataclass(kw_only=True, slots=True)
class Peer:
    """One side of the gateway: a byte stream and the HTTP/1.1 state of it."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    http: h11.Connection

    async def send(self, event: h11.Event) -> None:
        if data := self.http.send(event):
            self.writer.write(data)
            await self.writer.drain()

    async def receive(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        """Return the next event; a peer that has gone shows as `h11.ConnectionClosed` or a `RemoteProtocolError`."""
        while True:
            event = self.http.next_event()
            if event is not h11.NEED_DATA:
                return event
            if self.http.they_are_waiting_for_100_continue:
                await self.send(h11.InformationalResponse(status_code=100, headers=[], reason=b"Continue"))
            self.http.receive_data(await self.reader.read(_CHUNK_BYTES))

    def close(self) -> None:
        self.writer.close()


class GcsGateway:
    """Serve `CONNECT` for Cloud Storage's hosts, and forward what comes through to the emulator."""

    def __init__(self, emulator: Emulator, tls: ssl.SSLContext) -> None:
        self._emulator = emulator
        self._tls = tls

    async def serve(self, host: str, port: int) -> asyncio.Server:
        """Listen on `host:port` (0: any free port) and return the server, already accepting."""
        return await asyncio.start_server(self._on_connection, host, port, limit=_HEAD_LIMIT_BYTES)

    async def _on_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._tunnel(reader, writer)
        except (OSError, asyncio.IncompleteReadError, h11.ProtocolError, ssl.SSLError):
            pass  # One of the two ends broke off; the client tries again by itself.
        finally:
            writer.close()

    async def _tunnel(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        if (host := storage_host_of(head)) is None:
            writer.write(refusal_of(head))
            await writer.drain()
            return
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await writer.drain()
        await writer.start_tls(self._tls)
        await self._forward_all(host, reader, writer)

    async def _forward_all(self, host: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        client = Peer(reader=reader, writer=writer, http=h11.Connection(h11.SERVER))
        server: Peer | None = None
        try:
            while head := await next_head(reader):
                client.http.receive_data(_IDENTITY_ENCODING.sub(b"", head))
                server = server if server and reusable(server) else await self._connect()
                await exchange(host, client, server)
                if not reusable(client):
                    return
        finally:
            if server is not None:
                server.close()

    async def _connect(self) -> Peer:
        reader, writer = await asyncio.open_connection(self._emulator.host, self._emulator.port)
        return Peer(reader=reader, writer=writer, http=h11.Connection(h11.CLIENT))


def storage_host_of(head: bytes) -> str | None:
    """Return the host that a `CONNECT` asks for, or None if this is anything but a `CONNECT` to Cloud Storage."""
    method, _, rest = head.partition(b" ")
    host = rest.partition(b" ")[0].decode("latin-1").rpartition(":")[0]
    return host if method == b"CONNECT" and host in STORAGE_HOSTS else None


def refusal_of(head: bytes) -> bytes:
    """Return the answer to a request that is not for Cloud Storage."""
    asked = head.partition(b"\r\n")[0].decode("latin-1")
    body = (
        f"Lockstep's storage gateway serves CONNECT to {' and '.join(STORAGE_HOSTS)} only; it was asked for: {asked}\n"
        "Add the host to no_proxy to reach it directly.\n"
    ).encode()
    headers = ("Content-Type: text/plain", "Connection: close", f"Content-Length: {len(body)}")
    return "\r\n".join(["HTTP/1.1 403 Forbidden", *headers, "", ""]).encode() + body


async def next_head(reader: asyncio.StreamReader) -> bytes:
    """Return the next request's line and headers, or nothing if the client has finished."""
    try:
        return await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return b""


async def exchange(host: str, client: Peer, server: Peer) -> None:
    """Pass one request to the server and its answer back, both streamed."""
    await relay(host, client, server)
    await relay(host, server, client)
    for peer in (client, server):
        if peer.http.our_state is h11.DONE and peer.http.their_state is h11.DONE:
            peer.http.start_next_cycle()


async def relay(host: str, source: Peer, sink: Peer) -> None:
    """Pass one message on, head to end."""
    while True:
        event = await source.receive()
        match event:
            case h11.Request():
                headers = list(forwarded_headers(host, event.headers))
                await sink.send(h11.Request(method=event.method, target=event.target, headers=headers))
            case h11.Response():
                headers = list(forwarded_headers(host, event.headers))
                await sink.send(h11.Response(status_code=event.status_code, reason=event.reason, headers=headers))
            case h11.Data():
                await sink.send(event)
            case h11.EndOfMessage():
                await sink.send(event)
                return
            case h11.InformationalResponse():
                pass
            case _:
                raise h11.RemoteProtocolError("the message broke off")


def forwarded_headers(host: str, headers: Headers) -> Iterator[tuple[bytes, bytes]]:
    """Yield the headers for the other side, in their own spelling: TensorFlow looks for `Location`, not `location`."""
    for name, value in headers.raw_items():
        if name.lower() == b"location":
            target = urlsplit(value.decode("latin-1"))._replace(scheme="https", netloc=host)
            yield name, target.geturl().encode("latin-1")
        elif name.lower() not in _NOT_FORWARDED:
            yield name, value


def reusable(peer: Peer) -> bool:
    return peer.http.our_state is h11.IDLE and not peer.reader.at_eof()


async def run(arguments: argparse.Namespace) -> None:
    gateway = GcsGateway(Emulator.at(arguments.emulator), server_context(arguments.certificates, STORAGE_HOSTS))
    server = await gateway.serve(arguments.host, arguments.port)
    host, port = server.sockets[0].getsockname()[:2]
    print(f"storage gateway: http://{host}:{port} -> {arguments.emulator}", flush=True)
    await server.serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m lockstep.local.gcs_gateway", description=__doc__)
    parser.add_argument("--emulator", required=True, help="http://host:port of fake-gcs-server")
    parser.add_argument("--certificates", required=True, type=Path, help="folder of the authority (made if missing)")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
