"""SIGTERM, as this worker understands it: an end before training, a wish to stop during training.

TensorFlow's multi-worker strategy installs a handler of its own that swallows the signal, so ours is installed again
after the strategy is made.
"""

from __future__ import annotations

import signal
from types import FrameType
from typing import Any

from trainer.errors import Stopped


class StopRequest:
    """Whether this worker was told to stop."""

    def __init__(self) -> None:
        self._received = False

    def end_at_once(self) -> None:
        """From now on SIGTERM raises Stopped: there is nothing to save yet. (As process 1 of a container the default
        would be to ignore it.)"""
        signal.signal(signal.SIGTERM, self._raise)

    def remember(self) -> None:
        """From now on SIGTERM is remembered, for the workers to stop together."""
        signal.signal(signal.SIGTERM, self._remember)

    def received(self) -> bool:
        return self._received

    def _raise(self, _signal: int, _frame: FrameType | None) -> Any:
        raise Stopped("stopped before training began; there was nothing to save")

    def _remember(self, _signal: int, _frame: FrameType | None) -> None:
        self._received = True
