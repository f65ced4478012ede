"""What `status` shows of a service: whether it runs, whether it is ready, and what it weighs."""

from __future__ import annotations

from dataclasses import dataclass

from lockstep.local.service import Service
from lockstep.local.service_process import ServiceProcess, family, memory_bytes


@dataclass(frozen=True, kw_only=True, slots=True)
class ServiceStatus:
    """One service as it is now; `objection` is None if it is ready. `memory_bytes` counts its descendants too."""

    name: str
    url: str
    pid: int | None
    objection: str | None
    memory_bytes: int


def status_of(service: Service, process: ServiceProcess | None) -> ServiceStatus:
    living = process.living() if process else None
    if process is None or living is None:
        return ServiceStatus(name=service.name, url=service.url, pid=None, objection="not running", memory_bytes=0)
    return ServiceStatus(
        name=service.name,
        url=service.url,
        pid=process.pid,
        objection=service.ready.objection(process.created_at),
        memory_bytes=memory_bytes(family(living)),
    )
