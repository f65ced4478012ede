"""A service of the stack as a value: what to start, in which environment, and how to tell that it is ready."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lockstep.local.layout import StackLayout
from lockstep.local.probe import Probe

MARKER = "LOCKSTEP_STACK"
"""Every process of a stack carries this variable, with the state folder as its value; children inherit it."""

_INHERITED = ("HOME", "LANG", "LC_ALL", "LOGNAME", "TMPDIR", "TZ", "USER")


@dataclass(frozen=True, kw_only=True, slots=True)
class Service:
    """One long-lived process; `url` is shown to people, `ready` tells when it may be used."""

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(repr=False)
    cwd: Path
    ready: Probe
    url: str
    start_timeout_s: float = 300.0

    @property
    def fingerprint(self) -> str:
        """Equal for equal command, environment and folder: a process started from another one is out of date."""
        started_from = json.dumps([self.argv, dict(self.env), str(self.cwd)], sort_keys=True)
        return hashlib.sha256(started_from.encode()).hexdigest()


def base_environment(layout: StackLayout) -> dict[str, str]:
    """Return what every process of the stack gets: the marker, and of the user's settings none that leads it astray."""
    inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    return inherited | {
        "PATH": f"{layout.programs}:/usr/local/bin:/usr/bin:/bin",
        "PYTHONPATH": layout.python_path,
        "PYTHONUNBUFFERED": "1",
        # setproctitle would write its title over the memory that shows the environment, and with it over the marker.
        "SPT_NOENV": "1",
        MARKER: str(layout.state),
    }
