"""The termination message: how a worker that ends badly says what happened, without anybody reading its log.

Kubernetes keeps 4096 bytes of it, so the traceback gives way first, from its beginning.
"""

from __future__ import annotations

import json
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

SIZE_LIMIT_BYTES: Final = 4096
_MESSAGE_LIMIT_CHARS: Final = 600
_TRACEBACK_LIMIT_CHARS: Final = 3000

_NOT_THE_MESSAGE: Final = ("Graph execution error", "Detected at node", 'File "', "[[{{node", "Additional GRPC error")

Kind = Literal["request", "data", "peer_lost", "stall", "storage", "stopped", "user"]
Phase = Literal["rendezvous", "input", "step", "save"]


@dataclass(frozen=True, kw_only=True, slots=True)
class TerminationMessage:
    """One line of what happened, where in training it did (step, phase), and the tail of the traceback."""

    kind: str
    message: str
    step: int | None = None
    phase: Phase | None = None
    traceback: str = ""

    def encode(self) -> bytes:
        """JSON of at most 4096 bytes."""
        fields = {
            "schema": 1,
            "kind": self.kind,
            "message": self.message[:_MESSAGE_LIMIT_CHARS],
            "step": self.step,
            "phase": self.phase,
        }
        kept = min(len(self.traceback), _TRACEBACK_LIMIT_CHARS)
        while True:
            tail = self.traceback[len(self.traceback) - kept :]
            encoded = json.dumps({**fields, "traceback": tail}, ensure_ascii=False).encode("utf-8", "replace")
            if len(encoded) <= SIZE_LIMIT_BYTES or kept == 0:
                return encoded
            kept = kept * 3 // 4


def one_line(error: BaseException) -> str:
    """`ValueError: what it said`, without line breaks, and without the stack that TensorFlow puts into its messages."""
    lines = (line.strip() for line in str(error).splitlines())
    text = " ".join(" ".join(line for line in lines if not line.startswith(_NOT_THE_MESSAGE)).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def traceback_of(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))


def write_termination_message(path: str, message: TerminationMessage) -> None:
    """Leave the message. A node that gives no place for it must not hide the original failure, hence only a warning."""
    try:
        Path(path).write_bytes(message.encode())
    except OSError as error:
        print(f"the termination message could not be written to {path}: {error}", file=sys.stderr)
