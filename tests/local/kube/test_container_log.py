"""A log gives back what was written, whole or in part, however it arrived."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from lockstep.local.kube.container_log import ContainerLog, LogQuery

OUTPUT = st.lists(st.sampled_from([b"a", b"\n", b"\n\n", b"line\n", b"x" * 20_000, b"\r", "ü".encode()]), max_size=20)


async def read(log: ContainerLog, query: LogQuery) -> bytes:
    return b"".join([piece async for piece in log.read(query)])


def written(folder: Path, pieces: list[bytes]) -> ContainerLog:
    log = ContainerLog(folder / "log")
    for piece in pieces:
        log.write(piece)
    log.close()
    return log


@given(pieces=OUTPUT)
def test_what_was_written_is_read(pieces: list[bytes]) -> None:
    """Whatever the pieces in which it came."""
    with tempfile.TemporaryDirectory() as folder:
        assert asyncio.run(read(written(Path(folder), pieces), LogQuery())) == b"".join(pieces)


@given(lines=st.lists(st.sampled_from([b"", b"a", b"longer line"]), max_size=30), wanted=st.integers(0, 35))
def test_the_last_lines_are_the_last_lines(lines: list[bytes], wanted: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        log = written(Path(folder), [line + b"\n" for line in lines])
        expected = b"".join(line + b"\n" for line in lines[max(0, len(lines) - wanted) :])

        assert asyncio.run(read(log, LogQuery(tail_lines=wanted))) == expected


async def test_a_follower_sees_each_line_as_it_comes_and_the_end(tmp_path: Path) -> None:
    log = ContainerLog(tmp_path / "log")
    log.write(b"first\n")
    follower = log.read(LogQuery(follow=True))
    assert await anext(follower) == b"first\n"

    second = asyncio.ensure_future(anext(follower))
    await asyncio.sleep(0)
    assert not second.done()
    log.write(b"sec")
    log.write(b"ond\n")
    assert await second == b"second\n"

    log.close()
    assert [piece async for piece in follower] == []


async def test_a_log_longer_than_a_block_has_a_tail(tmp_path: Path) -> None:
    log = written(tmp_path, [f"{number:0100d}\n".encode() for number in range(20_000)])

    text = await read(log, LogQuery(tail_lines=5_000))

    assert [int(line) for line in text.split()] == list(range(15_000, 20_000))
    assert log.tail(lines=2, size_bytes=100).endswith(f"{19_999:050d}\n")
