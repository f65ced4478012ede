"""What this worker is doing right now: phase, step, and when it last moved. Read by the watchdog and the last message.

Everything here is safe to read from another thread while the main thread trains, or hangs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from trainer.termination import Phase


class Pulse:
    """Beats whenever the worker moves on. `watch` lets whoever counts steps more finely be asked."""

    def __init__(self) -> None:
        self.phase: Phase | None = None
        self.step: int | None = None
        self._moved_at_s = time.monotonic()
        self._look: Callable[[], tuple[Phase, int, int]] | None = None
        self._evaluated = 0

    def beat(self, step: int | None = None) -> None:
        """Say that the worker moved; `step` is the number of steps done."""
        self.step = self.step if step is None else step
        self._moved_at_s = time.monotonic()

    @contextmanager
    def during(self, phase: Phase) -> Iterator[None]:
        """Everything inside counts as `phase`; what fails inside leaves the phase standing, as evidence."""
        before, self.phase = self.phase, phase
        self.beat()
        yield
        self.phase = before
        self.beat()

    def watch(self, look: Callable[[], tuple[Phase, int, int]]) -> None:
        """Have `look` tell phase, step and batches evaluated during the phase `step`: one call of TensorFlow trains
        many steps, or evaluates many batches."""
        self._look = look

    def look(self) -> tuple[Phase | None, int | None]:
        """Phase and step as of now; notices steps done inside a call that has not returned yet."""
        if self.phase != "step" or self._look is None:
            return self.phase, self.step
        phase, step, evaluated = self._look()
        if (step, evaluated) != (self.step, self._evaluated):
            self._evaluated = evaluated
            self.beat(step)
        return phase, step

    def still_for_s(self) -> float:
        """Seconds since it last moved. Waiting at the rendezvous has a limit of its own, and is no standstill."""
        if self.phase == "rendezvous":
            self.beat()
        self.look()
        return time.monotonic() - self._moved_at_s
