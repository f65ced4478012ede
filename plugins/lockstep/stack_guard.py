"""Ends a one-machine stack together with the process that started it, even if that is killed.

The stack's services outlive their starter on purpose; a process of its own waits for the end of a pipe that only the
starter holds open, and takes the stack down then.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lockstep.local.stack import Stack

_DOWN_TIMEOUT_S = 120.0


@contextmanager
def guarded(stack: Stack) -> Iterator[None]:
    """Take the stack down at the end of the block, or of this process. Raise RuntimeError if that fails."""
    guard = subprocess.Popen(
        [sys.executable, "-m", __name__, str(stack.layout.state)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,  # an interrupt at the terminal is for the starter
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    try:
        yield
    finally:
        said, _ = guard.communicate(timeout=_DOWN_TIMEOUT_S)
        if guard.returncode:
            raise RuntimeError(f"the one-machine stack in {stack.layout.state} could not be ended:\n{said}")


def main(state: str) -> None:
    sys.stdin.read()
    Stack(Path(state), with_airflow=False).down()


if __name__ == "__main__":
    main(sys.argv[1])
