"""What moves is no standstill, however long it takes."""

from __future__ import annotations

import subprocess
import sys

import pytest

from trainer.pulse import Pulse
from trainer.termination import Phase

STILL = """
import sys, time
from trainer.actions.watchdog import Watchdog
from trainer.pulse import Pulse
pulse = Pulse()
Watchdog(pulse, 0.5, "/dev/null").start()
with pulse.during(sys.argv[1]):
    time.sleep(float(sys.argv[2]))
"""


@pytest.mark.parametrize(
    ("phase", "still_s", "status"),
    [
        pytest.param("input", 10, 75, id="no input: a stall"),
        pytest.param("save", 1.5, 0, id="an upload may take longer, for its chief and for those who wait"),
        pytest.param("save", 30, 75, id="but not for ever"),
        pytest.param("rendezvous", 1.5, 0, id="the rendezvous has a limit of its own"),
    ],
)
def test_a_standstill_ends_the_process(phase: Phase, still_s: float, status: int) -> None:
    command = [sys.executable, "-c", STILL, phase, str(still_s)]
    assert subprocess.run(command, capture_output=True, timeout=25, check=False).returncode == status


def test_an_evaluation_beats_with_each_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """One call of TensorFlow evaluates many batches, and the step stays the same."""
    now_s, evaluated = 0.0, 0
    monkeypatch.setattr("trainer.pulse.time.monotonic", lambda: now_s)
    pulse = Pulse()
    pulse.watch(lambda: ("input", 10, evaluated))
    with pulse.during("step"):
        pulse.look()
        now_s, evaluated = 100.0, 1
        assert pulse.still_for_s() == 0
        now_s = 150.0
        assert pulse.still_for_s() == 50
