"""A container's log: one file of time-stamped lines, written by one writer, read by any number of followers.

The form on disk is the runtime's: `<time> F <line>` for a whole line and `P` for a piece of a very long one.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

_LONGEST_PIECE_BYTES = 16 * 1024
_CHUNK_BYTES = 256 * 1024
_TIME_LENGTH = len("2026-01-02T03:04:05.000000000Z")
_TEXT_START = _TIME_LENGTH + len(" F ")


@dataclass(frozen=True, kw_only=True, slots=True)
class LogQuery:
    """What a client asks of a log. `since` is seconds since the epoch."""

    follow: bool = False
    timestamps: bool = False
    since: float | None = None
    tail_lines: int | None = None
    limit_bytes: int | None = None


class ContainerLog:
    """The log of one container; open while something may still be written."""

    def __init__(self, path: Path, *, is_open: bool = True) -> None:
        self._path = path
        self._file = path.open("ab", buffering=0) if is_open else None
        self._unfinished = b""
        self._grown = asyncio.Event()

    def write(self, output: bytes) -> None:
        """Append raw output; what has no line end yet waits for it, up to 16 KiB."""
        *lines, self._unfinished = (self._unfinished + output).split(b"\n")
        entries = [entry for line in lines for entry in _entries(line)]
        while len(self._unfinished) >= _LONGEST_PIECE_BYTES:
            entries.append((b"P", self._unfinished[:_LONGEST_PIECE_BYTES]))
            self._unfinished = self._unfinished[_LONGEST_PIECE_BYTES:]
        self._append(entries)

    def close(self) -> None:
        """Write what is left of an unfinished line and let the followers end."""
        if self._file is None:
            return
        self._append([(b"P", self._unfinished)] if self._unfinished else [])
        self._file.close()
        self._file = None
        self._wake()

    def _append(self, entries: list[tuple[bytes, bytes]]) -> None:
        if entries and self._file is not None:
            stamp = _log_time(time.time_ns()).encode()
            self._file.write(b"".join(b"%s %s %s\n" % (stamp, kind, text) for kind, text in entries))
            self._wake()

    def _wake(self) -> None:
        self._grown.set()
        self._grown = asyncio.Event()

    async def read(self, query: LogQuery) -> AsyncIterator[bytes]:
        """Yield the text asked for, in pieces; with `follow` until the container has ended."""
        left = query.limit_bytes
        async for chunk in self._chunks(query):
            text = b"".join(_rendered(chunk, query))
            if text:
                yield text if left is None else text[:left]
            if left is not None and (left := left - len(text)) <= 0:
                return

    async def _chunks(self, query: LogQuery) -> AsyncIterator[bytes]:
        with self._path.open("rb") as file:
            file.seek(_tail_start(self._path, query.tail_lines))
            rest = b""
            while True:
                grown, is_open = self._grown, self._file is not None
                if data := file.read(_CHUNK_BYTES):
                    whole, end, rest = (rest + data).rpartition(b"\n")
                    yield whole + end
                    await asyncio.sleep(0)  # a long log must not hold up the other clients
                elif query.follow and is_open:
                    await grown.wait()
                else:
                    return

    def tail(self, *, lines: int, size_bytes: int) -> str:
        """Return the end of the log, as a termination message has it."""
        with self._path.open("rb") as file:
            file.seek(_tail_start(self._path, lines))
            return b"".join(_rendered(file.read(), LogQuery()))[-size_bytes:].decode(errors="replace")


def _entries(line: bytes) -> Iterator[tuple[bytes, bytes]]:
    while len(line) > _LONGEST_PIECE_BYTES:
        yield b"P", line[:_LONGEST_PIECE_BYTES]
        line = line[_LONGEST_PIECE_BYTES:]
    yield b"F", line


def _rendered(chunk: bytes, query: LogQuery) -> Iterator[bytes]:
    since = None if query.since is None else _log_time(int(query.since * 1e9)).encode()
    starts_line = True
    for entry in chunk.split(b"\n"):
        if not entry or (since is not None and entry[:_TIME_LENGTH] < since):
            continue
        if query.timestamps and starts_line:
            yield entry[:_TIME_LENGTH] + b" "
        starts_line = entry[_TIME_LENGTH + 1 : _TIME_LENGTH + 2] == b"F"
        yield entry[_TEXT_START:] + (b"\n" if starts_line else b"")


def _log_time(epoch_ns: int) -> str:
    """RFC 3339 with nine digits of a second: a fixed width, so that text order is time order."""
    seconds, fraction = divmod(epoch_ns, 1_000_000_000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{fraction:09d}Z"


def _tail_start(path: Path, lines: int | None) -> int:
    """Return the offset at which the last `lines` lines begin, reading backwards."""
    if lines is None:
        return 0
    with path.open("rb") as file:
        position = file.seek(0, os.SEEK_END)
        wanted = lines + 1  # the file ends with a line end
        while position > 0:
            start = max(0, position - _CHUNK_BYTES)
            file.seek(start)
            block = file.read(position - start)
            while (found := block.rfind(b"\n")) >= 0:
                wanted -= 1
                if wanted == 0:
                    return start + found + 1
                block = block[:found]
            position = start
    return 0
