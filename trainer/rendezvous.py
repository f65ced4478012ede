"""Every worker reaches every other before TensorFlow starts, or says who is missing.

Each worker listens on its own address of TF_CONFIG and calls on all others there. Both sides introduce themselves, so
that a foreign server, or a worker of another attempt, is not taken for a peer. A worker that has met all says `ready`
to each; one that has said it to all and heard it from all leaves: then nobody needs its port any more, and TensorFlow
may have it. A worker alone leaves at once.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import signal
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Final

from trainer.errors import InvalidRequest, PeerLost, Stopped

_RETRY_S: Final = 0.25
_HANDSHAKE_TIMEOUT_S: Final = 5.0
_LINE_LIMIT_BYTES: Final = 4096
_READY: Final = b"ready\n"


@dataclass(frozen=True, kw_only=True, slots=True)
class Introduction:
    """Who is speaking: two workers meet only if all but their ranks is equal."""

    gang: str
    attempt: int
    rank: int
    lockstep: int = 1

    def encode(self) -> bytes:
        return json.dumps(asdict(self)).encode() + b"\n"


def introduce(run_directory: str, addresses: Sequence[str], attempt: int, rank: int) -> Introduction:
    """The introduction of worker `rank`; `gang` is a digest of where the gang runs and writes."""
    gang = hashlib.sha256("\n".join([run_directory, *addresses]).encode()).hexdigest()[:16]
    return Introduction(gang=gang, attempt=attempt, rank=rank)


def meet_all_peers(addresses: Sequence[str], own: Introduction, timeout_s: float) -> float:
    """Return the seconds it took until all workers had met; the own port is free again then.

    Raises PeerLost naming every address that did not answer within `timeout_s`, and what was seen there; InvalidRequest
    when the own port stays taken; Stopped on SIGTERM.
    """
    started_s = time.monotonic()
    if len(addresses) > 1:
        asyncio.run(_Rendezvous(addresses, own).run(timeout_s))
    return time.monotonic() - started_s


class _Rendezvous:
    def __init__(self, addresses: Sequence[str], own: Introduction) -> None:
        self._addresses = addresses
        self._own = own
        self._peers = tuple(rank for rank in range(len(addresses)) if rank != own.rank)
        self._seen_at: dict[int, list[str]] = {rank: [] for rank in self._peers}
        self._answering: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        self._met: set[int] = set()
        self._told: set[int] = set()
        self._heard: set[int] = set()
        self._port_error: str | None = None
        self._changed = asyncio.Condition()

    async def run(self, timeout_s: float) -> None:
        task = asyncio.current_task()
        assert task is not None
        before = signal.getsignal(signal.SIGTERM)
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        try:
            async with asyncio.timeout(timeout_s):
                await self._meet()
        except TimeoutError:
            raise self._missing(timeout_s) from None
        except asyncio.CancelledError:
            raise Stopped("stopped while waiting for the other workers; there is no state to save yet") from None
        finally:
            asyncio.get_running_loop().remove_signal_handler(signal.SIGTERM)
            signal.signal(signal.SIGTERM, before)

    async def _meet(self) -> None:
        server = await self._listen()
        calls = [asyncio.create_task(self._call_until_told(rank)) for rank in self._peers]
        try:
            await self._until(lambda: len(self._told) == len(self._heard) == len(self._peers))
        finally:
            await _end(calls)
            server.close()
            await self._hang_up()

    async def _listen(self) -> asyncio.Server:
        """Bind all interfaces, as TensorFlow will. A predecessor may still be leaving: a taken port is tried again."""
        port = int(self._addresses[self._own.rank].rpartition(":")[2])
        while True:
            try:
                server = await asyncio.start_server(
                    self._answer, port=port, reuse_address=True, limit=_LINE_LIMIT_BYTES
                )
            except OSError as error:
                self._port_error = f"port {port} cannot be had ({error.strerror})"
                await asyncio.sleep(_RETRY_S)
            else:
                self._port_error = None
                return server

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """A peer calls: exchange introductions, then note when it is ready. Whoever else calls is told who is here."""
        task = asyncio.current_task()
        assert task is not None
        self._answering[task] = writer
        try:
            with suppress(OSError, ValueError):
                async with asyncio.timeout(_HANDSHAKE_TIMEOUT_S):
                    caller = _parse(await reader.readline())
                writer.write(self._own.encode())
                await writer.drain()
                if self._stranger(caller) is None and await reader.readline() == _READY:
                    await self._note(self._heard, caller.rank)
        finally:
            del self._answering[task]
            writer.close()

    async def _hang_up(self) -> None:
        """Close the connections of callers, which lets the tasks that answer them end."""
        tasks = list(self._answering)
        for writer in self._answering.values():
            writer.close()
        await asyncio.gather(*tasks)

    async def _call_until_told(self, rank: int) -> None:
        while rank not in self._told:
            try:
                await self._call(rank)
            except (OSError, ValueError) as error:
                self._remember(rank, _describe(error))
                self._met.discard(rank)
                await asyncio.sleep(_RETRY_S)

    async def _call(self, rank: int) -> None:
        """Meet a peer and, once all have been met, tell it so. The connection stays open in between: if it breaks, the
        peer is not met any more."""
        host, _, port = self._addresses[rank].rpartition(":")
        async with asyncio.timeout(_HANDSHAKE_TIMEOUT_S):
            reader, writer = await asyncio.open_connection(host.strip("[]"), int(port), limit=_LINE_LIMIT_BYTES)
        try:
            async with asyncio.timeout(_HANDSHAKE_TIMEOUT_S):
                writer.write(self._own.encode())
                answer = _parse(await reader.readline())
            if (why := self._stranger(answer, rank)) is not None:
                raise ValueError(why)
            await self._note(self._met, rank)
            await self._all_met_while_open(reader)
            writer.write(_READY)
            await writer.drain()
            await self._note(self._told, rank)
        finally:
            writer.close()

    async def _all_met_while_open(self, reader: asyncio.StreamReader) -> None:
        met = asyncio.create_task(self._until(lambda: len(self._met) == len(self._peers)))
        closed = asyncio.create_task(reader.read(1))
        try:
            await asyncio.wait((met, closed), return_when=asyncio.FIRST_COMPLETED)
            if not met.done():
                raise ConnectionResetError("it answered, and then went away")
        finally:
            await _end([met, closed])

    def _stranger(self, other: Introduction, rank: int | None = None) -> str | None:
        if other.gang != self._own.gang:
            return "a worker of another gang answers"
        if other.attempt != self._own.attempt:
            return f"a worker of attempt {other.attempt} answers, this is attempt {self._own.attempt}"
        if rank is not None and other.rank != rank:
            return f"worker {other.rank} answers in its place"
        return None

    async def _note(self, ranks: set[int], rank: int) -> None:
        async with self._changed:
            ranks.add(rank)
            self._changed.notify_all()

    async def _until(self, condition: Callable[[], bool]) -> None:
        async with self._changed:
            await self._changed.wait_for(condition)

    def _missing(self, timeout_s: float) -> InvalidRequest | PeerLost:
        if self._port_error is not None:
            return InvalidRequest(f"{self._port_error}: another process of this node has it; ask for another port")
        missing = [rank for rank in self._peers if rank not in self._met or rank not in self._heard]
        unmet = [rank for rank in missing if rank not in self._met] or missing
        seen = "; ".join(f"worker {rank} at {self._addresses[rank]} ({self._why(rank)})" for rank in unmet)
        return PeerLost(f"{len(unmet)} of {len(self._peers)} peers did not come within {timeout_s:g} s: {seen}")

    def _remember(self, rank: int, seen: str) -> None:
        """Keep what was seen in turn: a peer that gave up first is gone by the time that this one does."""
        if self._seen_at[rank][-1:] != [seen]:
            self._seen_at[rank].append(seen)

    def _why(self, rank: int) -> str:
        if rank in self._met:
            return "it waits for others itself"
        return ", then ".join(self._seen_at[rank][-3:]) or "no answer"


def _parse(line: bytes) -> Introduction:
    try:
        introduction = Introduction(**json.loads(line))
    except (TypeError, ValueError) as error:
        raise ValueError("something else than a Lockstep worker answers") from error
    return introduction


def _describe(error: Exception) -> str:
    if isinstance(error, socket.gaierror):
        return "its name is not known (yet)"
    if isinstance(error, ConnectionRefusedError):
        return "nobody listens"
    if isinstance(error, TimeoutError):
        return "no answer"
    return str(error) or type(error).__name__


async def _end(tasks: Sequence[asyncio.Task[None] | asyncio.Task[bytes]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
