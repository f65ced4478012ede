"""Chunks of a container's log, as the API streams them with time stamps -> lines. Memory is bounded whatever comes."""

from __future__ import annotations

from collections.abc import AsyncIterator

from lockstep.cluster import LogLine

MAX_LINE_BYTES = 16 * 1024
"""Longer lines (a progress bar that never ends its line) are cut into pieces of this size."""


async def log_lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[LogLine]:
    """Split into lines; a piece of an overlong line bears the time stamp at which the line began."""
    rest, at = b"", ""
    async for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        for raw in whole:
            yield _line(raw, at)
            at = ""
        if len(rest) > MAX_LINE_BYTES:
            piece = _line(rest, at)
            yield piece
            rest, at = b"", piece.at
    if rest:
        yield _line(rest, at)


def _line(raw: bytes, at: str) -> LogLine:
    text = raw.decode(errors="replace").rstrip("\r")
    if at:
        return LogLine(at, text)
    stamp, _, said = text.partition(" ")
    return LogLine(stamp, said)
