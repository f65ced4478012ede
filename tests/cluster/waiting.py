"""Waiting for a condition, with a bound and a name for what was waited for."""

from __future__ import annotations

import time
from collections.abc import Callable

LOOK_EVERY_S = 0.05


def wait_until(
    condition: Callable[[], bool], *, what: str, timeout_s: float, hopeless: Callable[[], str | None] = lambda: None
) -> None:
    """Return once `condition` holds. Raises TimeoutError after `timeout_s`, or as soon as `hopeless` gives a reason."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if (reason := hopeless()) is not None:
            raise TimeoutError(f"waited in vain for {what}: {reason}")
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {timeout_s:.0f} s for {what}")
        time.sleep(LOOK_EVERY_S)
