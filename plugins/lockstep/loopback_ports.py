"""Ports for workers that share one machine's network, where each needs its own (`rendezvous: loopback`)."""

from __future__ import annotations

import socket
from contextlib import ExitStack


def free_loopback_ports(count: int) -> tuple[int, ...]:
    """Ports of 127.0.0.1 that nobody listens on; held together while choosing, so that no two are equal."""
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return tuple(each.getsockname()[1] for each in sockets)
