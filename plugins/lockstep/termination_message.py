"""The message with which a worker of ours ends (contract, version 1), read from what Kubernetes keeps of it.

A foreign image writes anything, or nothing; then the text itself is all that is known.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True, slots=True)
class TerminationMessage:
    """`step` is the last finished step; `phase` is one of rendezvous, input, step, save, or empty."""

    text: str
    kind: str = ""
    step: int | None = None
    phase: str = ""
    traceback: str = ""


def read_termination_message(raw: str) -> TerminationMessage:
    """Parse `raw`; text that is not of our schema becomes the message, its last line being what tools print last."""
    ours = _ours(raw)
    if ours is None:
        lines = raw.strip().splitlines()
        return TerminationMessage(text=lines[-1].strip() if lines else "", traceback=raw.strip())
    return TerminationMessage(
        text=str(ours.get("message") or ""),
        kind=str(ours.get("kind") or ""),
        step=ours.get("step"),
        phase=str(ours.get("phase") or ""),
        traceback=str(ours.get("traceback") or ""),
    )


def _ours(raw: str) -> dict[str, Any] | None:
    try:
        message = json.loads(raw)
    except ValueError:
        return None
    return message if isinstance(message, dict) and message.get("schema") == 1 else None
