"""A process ends at its deadline even when C code never gives Python's lock back."""

from __future__ import annotations

import subprocess
import sys

STUCK_WITH_THE_LOCK = """
import ctypes
from trainer.hard_deadline import hard_deadline
with hard_deadline(30.0, 70):
    pass
print("the first one ended in time", flush=True)
with hard_deadline(1.0, 69):
    ctypes.PyDLL(None).sleep(60)  # unlike CDLL, PyDLL keeps the lock during the call
"""


def test_a_process_stuck_in_c_code_ends_with_the_status_and_its_stacks() -> None:
    done = subprocess.run([sys.executable, "-c", STUCK_WITH_THE_LOCK], capture_output=True, text=True, timeout=30)
    assert done.returncode == 69
    assert done.stdout == "the first one ended in time\n"
    assert "most recent call first" in done.stderr
