"""Ports stay the same from one `up` to the next, as long as that is possible."""

from __future__ import annotations

import socket

from lockstep.local.ports import choose_ports, free_port


def test_a_free_port_is_kept():
    port = free_port(taken=())
    assert choose_ports(["a"], {"a": port}, running=())["a"] == port


def test_a_port_that_somebody_else_took_is_given_up():
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = other.getsockname()[1]
        assert choose_ports(["a"], {"a": taken}, running=())["a"] != taken


def test_a_service_that_runs_keeps_its_port():
    with socket.socket() as ours:
        ours.bind(("127.0.0.1", 0))
        ours.listen()
        port = ours.getsockname()[1]
        assert choose_ports(["a"], {"a": port}, running=["a"])["a"] == port


def test_no_two_services_share_a_port():
    names = [f"service-{number}" for number in range(20)]
    assert len(set(choose_ports(names, {}, running=()).values())) == len(names)
