"""Chunks of a container's log, as the API streams them with time stamps -> lines. Memory is bounded whatever comes.

However the log is cut into chunks, it is cut into the same lines: who reads it again finds the same ones.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from datetime import datetime

from lockstep.cluster import LogLine

MAX_LINE_BYTES = 16 * 1024
"""Longer lines (a progress bar that never ends its line) are cut into pieces of this size."""


async def log_lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[LogLine]:
    """Split into lines; a piece of an overlong line bears the time stamp at which the line began."""
    lines = _Lines()
    async for chunk in chunks:
        for line in lines.add(chunk):
            yield line
    for line in lines.end():
        yield line


class _Lines:
    """Takes a log chunk by chunk and gives its lines. `_at` is the stamp of the line that is not yet at its end."""

    def __init__(self) -> None:
        self._rest, self._at = b"", ""
        self._last = LogLine("", "", 0)

    def add(self, chunk: bytes) -> Iterator[LogLine]:
        *whole, self._rest = (self._rest + chunk).split(b"\n")
        for raw in whole:
            yield from self._pieces(raw)
            self._at = ""
        while len(self._rest) > MAX_LINE_BYTES:
            yield self._piece(self._rest[:MAX_LINE_BYTES])
            self._rest = self._rest[MAX_LINE_BYTES:]

    def end(self) -> Iterator[LogLine]:
        """The last line may have no end; where not even its stamp has come, there is more to come another time."""
        if self._at or b" " in self._rest:
            yield self._piece(self._rest)

    def _pieces(self, raw: bytes) -> Iterator[LogLine]:
        for start in range(0, max(1, len(raw)), MAX_LINE_BYTES):
            yield self._piece(raw[start : start + MAX_LINE_BYTES])

    def _piece(self, raw: bytes) -> LogLine:
        text = raw.decode(errors="replace").rstrip("\r")
        if not self._at:
            at, _, rest = text.partition(" ")
            if not _is_stamp(at):
                return LogLine("", text)  # not the container's: a kubelet says in its log what went wrong with it
            self._at, text = at, rest
        nth = self._last.nth + 1 if self._last.at == self._at else 1
        self._last = LogLine(self._at, text, nth)
        return self._last


def _is_stamp(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True
