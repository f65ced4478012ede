"""Nobody starts TensorFlow before all are there, and whoever waits in vain says for whom."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence

import pytest

from tests.trainer.ports import free_addresses

MEMBER = """
import json, socket, sys
from trainer.errors import TrainerError
from trainer.rendezvous import introduce, meet_all_peers
asked = json.loads(sys.argv[1])
addresses, rank = asked["addresses"], asked["rank"]
print("started", flush=True)
try:
    meet_all_peers(addresses, introduce("gs://b/run", addresses, asked["attempt"], rank), asked["timeout_s"])
except TrainerError as error:
    print(type(error).__name__, error)
else:
    with socket.socket() as again:
        again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        again.bind(("", int(addresses[rank].rpartition(":")[2])))
        again.listen()
    print("met, and the port is free")
"""

# Tells how often it was connected to a peer, and has little patience with one that does not introduce itself.
COUNTING = """
import asyncio
from trainer import rendezvous
rendezvous._HANDSHAKE_TIMEOUT_S = 0.5
connect, connections = asyncio.open_connection, []
async def counted(*args, **kwargs):
    connections.append(await connect(*args, **kwargs))
    return connections[-1]
asyncio.open_connection = counted
"""
TOLD = "print(len(connections))"


class Member:
    """One worker at a rendezvous, in a process of its own."""

    def __init__(
        self,
        addresses: Sequence[str],
        rank: int,
        *,
        attempt: int = 1,
        timeout_s: float = 20.0,
        story: str = MEMBER,
    ) -> None:
        asked = {"addresses": addresses, "rank": rank, "attempt": attempt, "timeout_s": timeout_s}
        command = [sys.executable, "-c", story, json.dumps(asked)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.process.stdout.readline()

    def outcome(self) -> str:
        return self.process.communicate(timeout=40)[0].strip()


@pytest.fixture
def impostor() -> Iterator[socket.socket]:
    """A listener that is no worker: it accepts, and answers like a web server."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def test_all_meet_whenever_they_come() -> None:
    addresses = free_addresses(3)
    early = [Member(addresses, rank) for rank in (0, 1)]
    late = Member(addresses, 2)
    assert {member.outcome() for member in [*early, late]} == {"met, and the port is free"}


def test_who_waits_for_the_last_stays_connected_to_the_others() -> None:
    """A connection that was cut while a peer was missing had to be made again, and in a large gang one always was."""
    gang = 8
    addresses = free_addresses(gang)
    early = [Member(addresses, rank, story=COUNTING + MEMBER + TOLD) for rank in range(gang - 1)]
    time.sleep(2)
    late = Member(addresses, gang - 1, story=COUNTING + MEMBER + TOLD)
    assert {member.outcome() for member in [*early, late]} == {f"met, and the port is free\n{gang - 1}"}


def test_the_missing_one_is_named() -> None:
    """tensorflow#39922: one instance never came, and the others waited for ever."""
    addresses = free_addresses(3)
    members = [Member(addresses, rank, timeout_s=3) for rank in (0, 1)]
    for outcome in [member.outcome() for member in members]:
        assert outcome.startswith("PeerLost ")
        assert f"worker 2 at {addresses[2]} (nobody listens" in outcome


def test_a_worker_of_another_attempt_is_no_peer() -> None:
    addresses = free_addresses(2)
    new, old = Member(addresses, 0, attempt=2, timeout_s=3), Member(addresses, 1, attempt=1, timeout_s=3)
    assert "a worker of attempt 1 answers, this is attempt 2" in new.outcome()
    assert "a worker of attempt 2 answers, this is attempt 1" in old.outcome()


def test_a_foreign_server_is_no_peer(impostor: socket.socket) -> None:
    own, foreign = free_addresses(1)[0], f"127.0.0.1:{impostor.getsockname()[1]}"
    member = Member([own, foreign], 0, timeout_s=3)
    impostor.settimeout(10)
    with impostor.accept()[0] as caller:
        caller.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        impostor.close()
        assert member.outcome().startswith("PeerLost")


def test_a_name_that_cannot_be_resolved_is_tried_until_the_timeout() -> None:
    """kubernetes#117819: a peer's name is not known yet when its pod has just started."""
    started_s = time.monotonic()
    outcome = Member([free_addresses(1)[0], "w1.no-such-gang.invalid:2222"], 0, timeout_s=3).outcome()
    assert time.monotonic() - started_s >= 3
    assert "worker 1 at w1.no-such-gang.invalid:2222 (its name is not known (yet))" in outcome


def test_a_taken_port_is_reported_as_such(impostor: socket.socket) -> None:
    port = impostor.getsockname()[1]
    outcome = Member([f"127.0.0.1:{port}", free_addresses(1)[0]], 0, timeout_s=2).outcome()
    assert outcome.startswith(f"InvalidRequest port {port} cannot be had (")


def test_sigterm_ends_the_wait() -> None:
    member = Member(free_addresses(2), 0, timeout_s=60)
    member.process.send_signal(signal.SIGTERM)
    assert member.outcome().startswith("Stopped") or member.process.returncode == -signal.SIGTERM
