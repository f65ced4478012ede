"""A pytest plugin: which tests may use the node at the same time, when several processes run them.

Most only create pods in a namespace of their own. Those marked `alone` stop parts of the node or close it, and wait
until nobody else uses it. Without LOCKSTEP_TEST_NODE_LOCKS, a folder, one process runs all, and nothing is locked.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

FOLDER = "LOCKSTEP_TEST_NODE_LOCKS"
OWN_NODE = "test_bring_up.py"


def pytest_configure(config: pytest.Config) -> None:
    declare_marker(config)


def declare_marker(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "alone: disturbs the node, so that no other test may use it meanwhile")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    if FOLDER not in os.environ or item.path.name == OWN_NODE:
        return (yield)
    with _node(Path(os.environ[FOLDER]), alone=item.get_closest_marker("alone") is not None):
        return (yield)


@contextmanager
def _node(folder: Path, *, alone: bool) -> Iterator[None]:
    """Who waits for the node keeps all who come later waiting, too, or its turn might never come."""
    with (folder / "turn").open("w") as turn, (folder / "node").open("w") as node:
        fcntl.flock(turn, fcntl.LOCK_EX)
        fcntl.flock(node, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        fcntl.flock(turn, fcntl.LOCK_UN)
        yield
