"""`KEY=VALUE` on a command line, as argparse takes it."""

from __future__ import annotations

import argparse
import json
from typing import Any


def parse_assignment(assignment: str) -> tuple[str, Any]:
    """Read `key=value`; a value that is JSON is taken as such, anything else as text."""
    key, separator, text = assignment.partition("=")
    if not separator or not key:
        raise argparse.ArgumentTypeError(f"expected KEY=VALUE, got {assignment!r}")
    try:
        return key, json.loads(text)
    except ValueError:
        return key, text
