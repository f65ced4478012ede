"""Ports of the stack: each service keeps the one that it was given first, as long as nobody else has taken it.

They come from below the range from which systems give out client ports, so that no outgoing connection takes one while
its service is down.
"""

from __future__ import annotations

import random
import socket
from collections.abc import Collection, Mapping

_CANDIDATES = range(18_000, 30_000)
LOOPBACK = "127.0.0.1"


def choose_ports(services: Collection[str], remembered: Mapping[str, int], running: Collection[str]) -> dict[str, int]:
    """Return a port for each service: the remembered one if the service runs or the port is free, else another."""
    ports = {name: port for name, port in remembered.items() if name in running or is_free(port)}
    for name in services:
        if name not in ports:
            ports[name] = free_port(taken=ports.values())
    return ports


def free_port(taken: Collection[int]) -> int:
    """Return a port that nobody listens on; raise `OSError` when there is none."""
    for port in random.sample(_CANDIDATES, k=200):
        if port not in taken and is_free(port):
            return port
    raise OSError(f"no free port on {LOOPBACK} between {_CANDIDATES.start} and {_CANDIDATES.stop}")


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True
