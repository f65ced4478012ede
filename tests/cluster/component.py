"""One long-running program of the cluster: how it is started, found again, judged ready and stopped.

A component is recorded with its process id and start time, so that an id that went to another program is not taken for
it. What it prints goes to its own log.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from lockstep.local.start_time import has_started, started_s
from tests.cluster.control_group import ControlGroup
from tests.cluster.layout import ClusterLayout
from tests.cluster.progress import step
from tests.cluster.waiting import wait_until

LOG_TAIL_LINES = 25


@dataclass(frozen=True, kw_only=True, slots=True)
class Component:
    """What to run. `ready` is asked until it says yes; `inside` names the component whose mount namespace it joins."""

    name: str
    argv: tuple[str, ...]
    ready: Callable[[], bool]
    environment: Mapping[str, str] = field(default_factory=dict)
    inside: str | None = None
    ready_timeout_s: float = 60.0


class ComponentFailed(SystemExit):
    """A component ended, or was not ready in time; the message carries the end of its log."""


def start(component: Component, layout: ClusterLayout) -> None:
    """Start it unless it runs, and return once it is ready. Raises ComponentFailed."""
    if running(component.name, layout) is not None:
        return
    with step(component.name):
        _launch(component, layout)
        _wait_until_ready(component, layout)


def stop(name: str, layout: ClusterLayout, grace_s: float = 5.0) -> None:
    """SIGTERM, and SIGKILL after `grace_s`; nothing happens where it does not run."""
    process = running(name, layout)
    if process is not None:
        process.terminate()
        try:
            _wait_until_ended(name, layout, grace_s)
        except TimeoutError:
            process.kill()
            _wait_until_ended(name, layout, grace_s)
    _record(name, layout).unlink(missing_ok=True)


def running(name: str, layout: ClusterLayout) -> psutil.Process | None:
    """The component's process, if it is that process still and alive."""
    record = _record(name, layout)
    if not record.exists():
        return None
    stored = json.loads(record.read_text())
    try:
        process = psutil.Process(stored["pid"])
        alive = has_started(process, stored["started_s"]) and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return None
    return process if alive else None


def log_file(name: str, layout: ClusterLayout) -> Path:
    return layout.folder("logs") / f"{name}.log"


def recorded(layout: ClusterLayout) -> tuple[str, ...]:
    """Names of the components that were started and not stopped, oldest first."""
    records = sorted(layout.folder("processes").glob("*.json"), key=lambda file: file.stat().st_mtime_ns)
    return tuple(file.stem for file in records)


def _launch(component: Component, layout: ClusterLayout) -> None:
    group = ControlGroup(name=layout.name).components
    join_group = f'echo $$ > {shlex.quote(str(group))}; exec "$@"'
    environment = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(layout.state)}
    with log_file(component.name, layout).open("ab") as log:
        process = subprocess.Popen(
            ["sh", "-c", join_group, "sh", *_namespaced(component, layout)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**environment, **component.environment},
            cwd=layout.state,
            start_new_session=True,
        )
    record = {"pid": process.pid, "started_s": started_s(psutil.Process(process.pid))}
    _record(component.name, layout).write_text(json.dumps(record))


def _namespaced(component: Component, layout: ClusterLayout) -> tuple[str, ...]:
    if component.inside is None:
        return component.argv
    holder = running(component.inside, layout)
    if holder is None:
        raise ComponentFailed(f"{component.name} cannot start: {component.inside} does not run")
    return ("nsenter", f"--target={holder.pid}", "--mount", f"--wd={layout.state}", *component.argv)


def _wait_until_ended(name: str, layout: ClusterLayout, timeout_s: float) -> None:
    """Ended, if perhaps not yet collected: its parent is the machine's first process, which takes its time."""
    wait_until(lambda: running(name, layout) is None, what=f"{name} to end", timeout_s=timeout_s)


def _wait_until_ready(component: Component, layout: ClusterLayout) -> None:
    def ended() -> str | None:
        return None if running(component.name, layout) else "it ended"

    try:
        wait_until(
            component.ready, what=f"{component.name} to be ready", timeout_s=component.ready_timeout_s, hopeless=ended
        )
    except TimeoutError as late:
        raise ComponentFailed(f"{late}\n{_log_tail(component.name, layout)}") from None


def _log_tail(name: str, layout: ClusterLayout) -> str:
    log = log_file(name, layout)
    lines = log.read_text(errors="replace").splitlines()[-LOG_TAIL_LINES:]
    return os.linesep.join([f"the end of {log}:", *(f"  {line}" for line in lines)])


def _record(name: str, layout: ClusterLayout) -> Path:
    return layout.folder("processes") / f"{name}.json"
