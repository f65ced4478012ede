"""A log as it is streamed, in chunks of any size, makes the same lines every time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstep.cluster import LogLine
from lockstep.log_lines import MAX_LINE_BYTES, log_lines

AT, LATER = "2026-12-01T12:00:00.5Z", "2026-12-01T12:00:01Z"
LONG = f"{AT} " + "x" * (2 * MAX_LINE_BYTES)
LOG = f"{AT} first\n{AT} second\n{AT} \n{LONG}\n{LATER} last\r\n{LATER} without an end".encode()


async def lines_of(chunks: list[bytes]) -> list[LogLine]:
    async def stream() -> AsyncIterator[bytes]:
        for chunk in chunks:
            yield chunk

    return [line async for line in log_lines(stream())]


async def test_what_a_kubelet_adds_of_its_own_bears_no_stamp() -> None:
    added = "failed to create fsnotify watcher: too many open files"
    lines = await lines_of([f"{AT} first\n{added}\n{AT} second\n{added}".encode()])
    assert [(line.at, line.text) for line in lines] == [(AT, "first"), ("", added), (AT, "second"), ("", added)]


async def test_lines_of_one_stamp_are_numbered_and_long_ones_are_cut() -> None:
    lines = await lines_of([LOG])
    assert [(line.at, line.nth) for line in lines] == [*((AT, nth) for nth in range(1, 7)), (LATER, 1), (LATER, 2)]
    assert [line.text for line in lines if len(line.text) < 100] == [
        "first",
        "second",
        "",
        "x" * (len(LONG) - 2 * MAX_LINE_BYTES),
        "last",
        "without an end",
    ]


@given(cuts=st.sets(st.integers(1, len(LOG) - 1), max_size=20))
@pytest.mark.asyncio
async def test_it_does_not_matter_how_it_comes(cuts: set[int]) -> None:
    edges = [0, *sorted(cuts), len(LOG)]
    chunks = [LOG[start:end] for start, end in pairwise(edges)]
    assert await lines_of(chunks) == await lines_of([LOG])


@pytest.mark.parametrize(
    ("line", "other"),
    [
        pytest.param(LogLine(LATER, ""), LogLine(AT, "", nth=7), id="a later stamp"),
        pytest.param(LogLine(AT, "", nth=2), LogLine(AT, ""), id="the next of the same stamp"),
        pytest.param(LogLine("2026-12-01T12:00:00.51Z", ""), LogLine(AT, ""), id="with more digits"),
    ],
)
def test_what_was_written_later(line: LogLine, other: LogLine) -> None:
    assert line.after(other)
    assert not other.after(line)
    assert not line.after(line)
