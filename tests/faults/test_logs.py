"""What workers print is in the task's log, line by line, whatever becomes of the connection and however much it is."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import psutil
import pytest

from lockstep import log_follower
from lockstep.kubernetes_cluster import KubernetesCluster
from lockstep.supervisor import launch, leave, supervise
from tests.airflow.kubernetes_connection import connect
from tests.faults.obedient_gang import ObedientGang
from tests.faults.unreliable_api import WELL, Call, Fault, UnreliableApi
from tests.faults.watched_gang import CLOCK
from tests.local.kube.running_server import RunningServer

BURSTS, A_BURST = 10, 200
SPEAK = f"""
for burst in range({BURSTS}):
    print("\\n".join(f"line {{number}}" for number in range(burst * {A_BURST}, (burst + 1) * {A_BURST})), flush=True)
    time.sleep(0.1)
time.sleep(1)
"""

LOUD_PODS, LOUD_LINES, LOUD_BYTES = 50, 8_192, 2 << 20
SHOUT = f"""
line = "x" * {LOUD_BYTES // LOUD_LINES - 1}
print("\\n".join([line] * {LOUD_LINES}), flush=True)
"""
MOST_LAG_S = 0.25
"""Of this thread's own work, so that what else the machine does is not counted."""
MOST_MEMORY_BYTES = LOUD_PODS * (4 << 20)
"""Of buffers for each connection and its encryption, however much passes through."""


class Told(logging.Handler):
    """The lines of each worker, counted; the last of each is kept."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.lines: defaultdict[str, Counter[str]] = defaultdict(Counter)

    def emit(self, record: logging.LogRecord) -> None:
        if record.msg == "%s%s":
            prefix, text = record.args  # type: ignore[misc]
            self.lines[str(prefix)][str(text)] += 1


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Told:
    """In place of the task's log."""
    logger, handler = logging.Logger("told", logging.INFO), Told()
    logger.addHandler(handler)
    monkeypatch.setattr(log_follower, "log", logger)
    return handler


@pytest.fixture
async def direct(fault_server: RunningServer, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[KubernetesCluster]:
    """Not through the proxy, which shares this process."""
    connect(monkeypatch, fault_server.kubeconfig)
    cluster = KubernetesCluster(conn_id="kubernetes_default", namespace="default")
    async with cluster.connected():
        yield cluster


def cut_ever_later(call: Call) -> Fault:
    """Most of the time within a burst, whose lines may all have the same time stamp; now and then politely."""
    if call.kind != "read log" or call.number > 12:
        return WELL
    return Fault(cut_after_bytes=call.number * 7_001, politely=call.number % 3 == 0)


async def test_no_line_is_lost_or_repeated_however_often_the_connection_breaks(
    api: UnreliableApi,
    gang: ObedientGang,
    cluster: KubernetesCluster,
    told: Told,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(log_follower, "RECONNECT_PAUSE_S", 0.01)
    monkeypatch.setattr(log_follower, "NEWS_OF_END_S", 0.1)
    running = await launch(gang.plan(), cluster, CLOCK)
    api.faults = cut_ever_later
    gang.order(0, SPEAK)
    gang.order(1, "time.sleep(0.5)")
    await supervise(running, cluster, CLOCK)
    await leave(running, cluster)
    assert told.lines["[chief] "] == dict.fromkeys((f"line {number}" for number in range(BURSTS * A_BURST)), 1)
    assert api.kinds()["read log"] > 10


class Lag:
    """The most work (CPU seconds) between two turns of the event loop, and the most memory of the process then."""

    def __init__(self) -> None:
        self.worst_s, self.most_bytes = 0.0, 0

    async def measure(self) -> None:
        while True:
            asked = time.thread_time()
            await asyncio.sleep(0.01)
            self.worst_s = max(self.worst_s, time.thread_time() - asked)
            self.most_bytes = max(self.most_bytes, psutil.Process().memory_info().rss)


@contextmanager
def measured() -> Iterator[Lag]:
    lag = Lag()
    measuring = asyncio.ensure_future(lag.measure())
    try:
        yield lag
    finally:
        measuring.cancel()


async def test_fifty_loud_pods_leave_the_event_loop_responsive_and_memory_bounded(
    gang: ObedientGang, direct: KubernetesCluster, told: Told
) -> None:
    """100 MB of logs, all shown; in a triggerer they would keep other people's triggers waiting."""
    running = await launch(gang.plan(LOUD_PODS, logs="all"), direct, CLOCK)
    before_bytes = psutil.Process().memory_info().rss
    gang.order_all(LOUD_PODS, SHOUT)
    with measured() as lag:
        await supervise(running, direct, CLOCK)
    print(f"lag {lag.worst_s:.2f} s, memory {(lag.most_bytes - before_bytes) / 1e6:.0f} MB")
    await leave(running, direct)
    assert [sum(lines.values()) for lines in told.lines.values()] == [LOUD_LINES] * LOUD_PODS
    assert lag.worst_s < MOST_LAG_S
    assert lag.most_bytes - before_bytes < MOST_MEMORY_BYTES
