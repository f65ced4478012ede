"""Waiting for what other processes do, with a bound and a name for what was waited for."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

LOOK_EVERY_S = 0.25
"""What is looked at costs its servers time that the awaited work needs."""

Found = TypeVar("Found")


def awaited(
    look: Callable[[], Found | None],
    *,
    what: str,
    timeout_s: float,
    hopeless: Callable[[], str | None] = lambda: None,
) -> Found:
    """Return what `look` finds: the first that is neither None nor False.

    Raises AssertionError after `timeout_s`, or as soon as `hopeless` gives a reason.
    """
    deadline = time.monotonic() + timeout_s
    while not (found := look()):
        reason = hopeless()
        assert reason is None, f"waited in vain for {what}: {reason}"
        assert time.monotonic() < deadline, f"waited {timeout_s:.0f} s for {what}"
        time.sleep(LOOK_EVERY_S)
    return found
