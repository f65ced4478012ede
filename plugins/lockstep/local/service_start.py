"""Waiting for services that were started: until each is ready, has ended, or has taken too long."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from lockstep.local.service import Service
from lockstep.local.service_process import ServiceProcess

_PROBE_EVERY_S = 0.1
_LOG_TAIL_LINES = 25


class StackFailed(Exception):
    """A service did not come up; the message shows the end of its log and where the rest is."""


def await_ready(
    services: Collection[Service],
    processes: Mapping[str, ServiceProcess],
    log_of: Callable[[str], Path],
    report: Callable[[str], None],
) -> None:
    """Return when every service is ready, and report each as it gets there. Raise `StackFailed`."""
    waiting = {service.name: service for service in services}
    began = time.time()
    while waiting:
        for service in list(waiting.values()):
            objection = objection_to(service, processes[service.name], log_of(service.name), time.time() - began)
            if objection is None:
                del waiting[service.name]
                report(f"  {service.name:<14} ready after {time.time() - began:4.1f} s   {service.url}")
        if waiting:
            time.sleep(_PROBE_EVERY_S)


def objection_to(service: Service, process: ServiceProcess, log: Path, waited_s: float) -> str | None:
    """Return why the service is not ready yet, None if it is; raise `StackFailed` if there is no hope."""
    if process.living() is None:
        raise StackFailed(f"{service.name} ended while it was starting\n{tail(log)}")
    objection = service.ready.objection(process.created_at)
    if objection is not None and waited_s > service.start_timeout_s:
        raise StackFailed(f"{service.name} is not ready after {waited_s:.0f} s: {objection}\n{tail(log)}")
    return objection


def tail(log: Path) -> str:
    """Return the last lines of a log, and where it is."""
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    return "\n".join([*(f"  | {line}" for line in lines[-_LOG_TAIL_LINES:]), f"The whole log: {log}"])
