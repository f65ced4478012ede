"""Ends a worker that does not move any more: stacks into the log, the phase into the last message, exit status 75.

A thread of its own watches the pulse; it works while the main thread hangs in a collective or in reading input.
"""

from __future__ import annotations

import faulthandler
import os
import threading
from typing import Final

from trainer import exit_codes
from trainer.pulse import Pulse
from trainer.termination import TerminationMessage, write_termination_message

_LOOKS_PER_TIMEOUT: Final = 20
_SAVING_TAKES: Final = 6
"""Times the timeout. Within one upload nothing can be seen to move, neither by the chief nor by those who wait for it:
six times the default is an hour, after which TensorFlow itself gives an upload to Cloud Storage up."""


class Watchdog:
    """Watches from `start` until the process ends."""

    def __init__(self, pulse: Pulse, timeout_s: float, termination_log: str) -> None:
        self._pulse = pulse
        self._timeout_s = timeout_s
        self._termination_log = termination_log

    def start(self) -> None:
        threading.Thread(target=self._watch, name="watchdog", daemon=True).start()

    def _watch(self) -> None:
        never = threading.Event()
        while self._pulse.still_for_s() < self._limit_s():
            never.wait(min(self._timeout_s / _LOOKS_PER_TIMEOUT, 5.0))
        self._end()

    def _limit_s(self) -> float:
        return self._timeout_s * (_SAVING_TAKES if self._pulse.phase == "save" else 1)

    def _end(self) -> None:
        phase, step = self._pulse.look()
        text = f"nothing moved for {self._limit_s():g} s in phase {phase or 'start'}; all stacks are in the log"
        message = TerminationMessage(kind="stall", message=f"Stalled: {text}", step=step, phase=phase)
        write_termination_message(self._termination_log, message)
        faulthandler.dump_traceback(all_threads=True)
        os._exit(exit_codes.STALLED)
