"""The one-machine stack: brings its services up, tells how they are, and takes them down without leaving a process.

What the services are is said in the `*_service.py` files; how a process is started and ended, in `service_process.py`.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path

from lockstep.local import airflow_service, service_process
from lockstep.local.airflow_service import airflow_environment, airflow_services, airflow_url, database_preparation
from lockstep.local.keys import AirflowKeys
from lockstep.local.kube_service import KUBE, kube_service, write_images
from lockstep.local.layout import PROJECT_ROOT, StackLayout
from lockstep.local.mlflow_service import MLFLOW, mlflow_service, mlflow_url
from lockstep.local.ports import choose_ports
from lockstep.local.service import Service, base_environment
from lockstep.local.service_process import ServiceProcess
from lockstep.local.stack_state import StackState, locked
from lockstep.local.storage_service import EMULATOR, GATEWAY, emulator_url, make_bucket, storage_services

_PROBE_EVERY_S = 0.1
_DATABASE_TIMEOUT_S = 180.0
_LOG_TAIL_LINES = 25


class StackFailed(Exception):
    """A service did not come up; the message shows the end of its log and where the rest is."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ServiceStatus:
    """One service as it is now. `memory_bytes` counts its descendants too."""

    name: str
    url: str
    pid: int | None
    objection: str | None
    memory_bytes: int


class Stack:
    """The services of one state folder.

    `with_airflow=False` leaves out Airflow's four processes: enough for `dag.test()`, which needs storage, cluster,
    registry and a prepared database only.
    """

    def __init__(
        self,
        state: Path,
        root: Path = PROJECT_ROOT,
        *,
        dags_folder: Path | None = None,
        with_airflow: bool = True,
        report: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.layout = StackLayout.of(state, root, dags_folder)
        self._with_airflow = with_airflow
        self._report = report

    def up(self) -> None:
        """Start what does not run, and return when all is ready; do nothing if all is. Raise `StackFailed`."""
        with locked(self.layout.lock_file):
            state = self._state_with_ports()
            services = self._services(state.ports)
            stale = [service for service in services if not is_current(service, state)]
            if stale:
                self._start(stale, state)

    def down(self) -> None:
        """End every process of the stack, those included that a crashed service left behind. Files stay."""
        with locked(self.layout.lock_file):
            state = StackState.read(self.layout.state_file)
            living = state.living()
            # Airflow first: a task that is told to end still has the cluster to clean up in.
            for names in (living.keys() - set(_BACKING), living.keys() & set(_BACKING)):
                service_process.end([living[name] for name in names])
                for name in sorted(names):
                    self._report(f"  {name:<14} ended")
            strays = service_process.end_strays(self.layout.state)
            if strays:
                self._report(f"  {strays} process(es) that a crash had left behind: ended")
            replace(state, processes={}).write(self.layout.state_file)

    def status(self) -> list[ServiceStatus]:
        """Return every service as it is now; asks each that runs whether it is ready."""
        state = StackState.read(self.layout.state_file)
        if not state.ports:
            return []
        return [status_of(service, state.processes.get(service.name)) for service in self._services(state.ports)]

    def environment(self) -> dict[str, str]:
        """Return the variables that a process needs to use this stack: `dag.test()`, pytest, a notebook."""
        ports = StackState.read(self.layout.state_file).ports
        keys = AirflowKeys.kept_in(self.layout.keys_file)
        return airflow_environment(self.layout, ports, keys) | {"KUBECONFIG": str(self.layout.kubeconfig)}

    @property
    def airflow_url(self) -> str:
        return airflow_url(self._ports)

    @property
    def mlflow_url(self) -> str:
        return mlflow_url(self._ports)

    @property
    def storage_url(self) -> str:
        return emulator_url(self._ports)

    def memory_bytes(self) -> int:
        """Return the memory of all processes of the stack now, pods included."""
        return service_process.memory_bytes(list(service_process.marked(self.layout.state)))

    @property
    def _ports(self) -> Mapping[str, int]:
        return StackState.read(self.layout.state_file).ports

    def _state_with_ports(self) -> StackState:
        state = StackState.read(self.layout.state_file)
        ports = choose_ports(port_owners(), state.ports, running=state.living())
        return replace(state, ports=ports)

    def _services(self, ports: Mapping[str, int]) -> tuple[Service, ...]:
        keys = AirflowKeys.kept_in(self.layout.keys_file)
        backing = (*storage_services(self.layout, ports), kube_service(self.layout, ports), mlflow_service(self.layout, ports))
        return backing + (airflow_services(self.layout, ports, keys) if self._with_airflow else ())

    def _start(self, services: Collection[Service], state: StackState) -> None:
        state = self._clear_the_way(services, state)
        write_images(self.layout, state.ports)
        backing = [service for service in services if service.name in _BACKING]
        state = self._launch(backing, state)
        state = self._prepare_database(state)
        airflow = [service for service in services if service.name not in _BACKING]
        state = self._launch(airflow, state)
        self._await([*backing, *airflow], state)
        make_bucket(state.ports)

    def _clear_the_way(self, services: Collection[Service], state: StackState) -> StackState:
        """End outdated processes of these services, and whatever a crash left behind."""
        names = {service.name for service in services}
        service_process.end([process for name, process in state.living().items() if name in names])
        kept = {name: process for name, process in state.living().items() if name not in names}
        service_process.end_strays(self.layout.state, spared=kept.values())
        state = replace(state, processes=kept)
        state.write(self.layout.state_file)
        return state

    def _launch(self, services: Collection[Service], state: StackState) -> StackState:
        for service in services:
            state = state.with_process(service.name, service_process.start(service, self.layout.log(service.name)))
            state.write(self.layout.state_file)
        return state

    def _prepare_database(self, state: StackState) -> StackState:
        if state.database_version == (wanted := version("apache-airflow-core")):
            return state
        self._report("  airflow        preparing its database")
        self._run_to_end(database_preparation(self.layout), self.layout.log("airflow-db"), state)
        state = replace(state, database_version=wanted)
        state.write(self.layout.state_file)
        return state

    def _run_to_end(self, argv: tuple[str, ...], log: Path, state: StackState) -> None:
        keys = AirflowKeys.kept_in(self.layout.keys_file)
        env = base_environment(self.layout) | airflow_environment(self.layout, state.ports, keys)
        self.layout.airflow_home.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            ended = subprocess.run(
                argv, env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, timeout=_DATABASE_TIMEOUT_S
            )
        if ended.returncode:
            raise StackFailed(f"{' '.join(argv)} ended with {ended.returncode}\n{tail(log)}")

    def _await(self, services: Collection[Service], state: StackState) -> None:
        """Wait until every service is ready; report each as it gets there."""
        started = time.time()
        waiting = {service.name: service for service in services}
        while waiting:
            for service in list(waiting.values()):
                objection = self._objection(service, state.processes[service.name])
                if objection is None:
                    del waiting[service.name]
                    self._report(f"  {service.name:<14} ready after {time.time() - started:4.1f} s   {service.url}")
                elif time.time() - started > service.start_timeout_s:
                    raise StackFailed(f"{service.name} is not ready: {objection}\n{tail(self.layout.log(service.name))}")
            time.sleep(_PROBE_EVERY_S)

    def _objection(self, service: Service, process: ServiceProcess) -> str | None:
        if process.living() is None:
            raise StackFailed(f"{service.name} ended while it was starting\n{tail(self.layout.log(service.name))}")
        return service.ready.objection(process.created_at)


_BACKING = (EMULATOR, GATEWAY, KUBE, MLFLOW)


def port_owners() -> tuple[str, ...]:
    return (*_BACKING, airflow_service.API_SERVER)


def is_current(service: Service, state: StackState) -> bool:
    """Tell whether the service runs, as it would be started now, and answers."""
    process = state.processes.get(service.name)
    return (
        process is not None
        and process.living() is not None
        and process.fingerprint == service.fingerprint
        and service.ready.objection(process.created_at) is None
    )


def status_of(service: Service, process: ServiceProcess | None) -> ServiceStatus:
    living = process.living() if process else None
    if process is None or living is None:
        return ServiceStatus(name=service.name, url=service.url, pid=None, objection="not running", memory_bytes=0)
    return ServiceStatus(
        name=service.name,
        url=service.url,
        pid=process.pid,
        objection=service.ready.objection(process.created_at),
        memory_bytes=service_process.memory_bytes(service_process.family(living)),
    )


def tail(log: Path) -> str:
    """Return the last lines of a log, and where it is."""
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    return "\n".join([*(f"  | {line}" for line in lines[-_LOG_TAIL_LINES:]), f"The whole log: {log}"])
