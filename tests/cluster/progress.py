"""One line per step of the bring-up: what is being done, and how long it took."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

STILL_AT_IT_S = 30.0


@contextmanager
def step(what: str) -> Iterator[None]:
    """Say what begins, say that it goes on every half minute, and say how long it took."""
    began = time.monotonic()
    ended = threading.Event()
    threading.Thread(target=_say_still_at_it, args=(what, began, ended), daemon=True).start()
    try:
        yield
    except BaseException:
        say(f"{what}: FAILED after {time.monotonic() - began:.1f} s")
        raise
    finally:
        ended.set()
    say(f"{what}: {time.monotonic() - began:.1f} s")


def say(line: str) -> None:
    print(f"cluster: {line}", file=sys.stderr, flush=True)


def _say_still_at_it(what: str, began: float, ended: threading.Event) -> None:
    while not ended.wait(STILL_AT_IT_S):
        say(f"{what}: … {time.monotonic() - began:.0f} s")
