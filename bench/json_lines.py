"""How the benchmark talks to the processes that it measures: one JSON object a line, on stdin and stdout."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from typing import Any, TextIO


def take_stdout() -> TextIO:
    """Where to answer. Whatever else prints in this process goes to stderr from now on."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", buffering=1)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return answers


def say(answers: TextIO, **what: Any) -> None:
    answers.write(json.dumps(what) + "\n")


async def orders() -> AsyncIterator[dict[str, Any]]:
    """What the benchmark asks, until it closes the pipe."""
    while line := await asyncio.to_thread(sys.stdin.readline):
        yield json.loads(line)
