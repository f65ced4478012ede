"""The one-machine stack: brings its services up, tells how they are, and takes them down without leaving a process.

What the services are is said in the `*_service.py` files; how a process is started and ended, in `service_process.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from lockstep.local import service_process
from lockstep.local.airflow_database import prepare_database, wanted_version
from lockstep.local.airflow_service import API_SERVER, airflow_environment, airflow_services, airflow_url
from lockstep.local.keys import AirflowKeys
from lockstep.local.kube_service import KUBE, kube_service, write_images
from lockstep.local.layout import PROJECT_ROOT, StackLayout
from lockstep.local.mlflow_service import MLFLOW, mlflow_service, mlflow_url
from lockstep.local.ports import choose_ports
from lockstep.local.service import Service, base_environment
from lockstep.local.service_start import await_ready
from lockstep.local.service_status import ServiceStatus, status_of
from lockstep.local.stack_state import StackState, locked
from lockstep.local.storage_service import (
    EMULATOR,
    GATEWAY,
    emulator_url,
    make_bucket,
    storage_services,
    tensorflow_environment,
)

_WITH_PORT = (EMULATOR, GATEWAY, KUBE, MLFLOW, API_SERVER)


class Stack:
    """The services of one state folder.

    `with_airflow=False` leaves out Airflow's four processes: enough for `dag.test()`, which needs storage, cluster,
    registry and a prepared database only. `imports` are folders of a user's own modules, which pods import beside the
    trainer. `report` gets a line for each thing that happens.
    """

    def __init__(
        self,
        state: Path,
        root: Path = PROJECT_ROOT,
        *,
        dags_folder: Path | None = None,
        with_airflow: bool = True,
        imports: Sequence[Path] = (),
        report: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.layout = StackLayout.of(state, root, dags_folder)
        self._with_airflow = with_airflow
        self._imports = imports
        self._report = report

    def up(self) -> None:
        """Start what does not run or is out of date, and return when all is ready. Raise `StackFailed`.

        What runs is left alone, so a second `up` only asks. What is still starting is waited for.
        """
        with locked(self.layout.lock_file):
            state = self._remembered()
            services = (*self._backing(state.ports), *self._airflow(state.ports))
            missing = [service.name for service in services if not runs(service, state)]
            if missing:
                state = self._start(set(missing), state)
            awaited = [service for service in services if service.name in missing or not ready(service, state)]
            await_ready(awaited, state.processes, self.layout.log, self._report)

    def down(self) -> None:
        """End every process of the stack, those included that a crashed service left behind. Files stay."""
        with locked(self.layout.lock_file):
            state = StackState.read(self.layout.state_file)
            backing = {service.name for service in self._backing(state.ports)} if state.ports else set()
            # Airflow first: a task that is told to end still has the cluster to clean up in.
            self._end(state, state.processes.keys() - backing)
            self._end(state, backing)
            self._end_strays()
            replace(state, processes={}).write(self.layout.state_file)

    def status(self) -> list[ServiceStatus]:
        """Return every service as it is now, whether it is ready included; empty before the first `up`."""
        state = StackState.read(self.layout.state_file)
        if not state.ports:
            return []
        services = (*self._backing(state.ports), *self._airflow(state.ports))
        return [status_of(service, state.processes.get(service.name)) for service in services]

    def environment(self) -> dict[str, str]:
        """Return the variables with which a process uses this stack: `dag.test()`, pytest, a notebook.

        They lead Airflow, google-cloud-storage, MLflow and Kubernetes clients here. TensorFlow's `gs://` needs
        `tensorflow_environment` besides, which sends all HTTPS of the process through the gateway.
        """
        return self._airflow_environment(self._ports) | {"KUBECONFIG": str(self.layout.kubeconfig)}

    def tensorflow_environment(self) -> dict[str, str]:
        """Return the variables with which a process that runs TensorFlow reads and writes this stack's `gs://`."""
        return tensorflow_environment(self.layout, self._ports)

    def memory_bytes(self) -> int:
        """Return the memory of all processes of the stack now, pods included."""
        return service_process.memory_bytes(list(service_process.marked(self.layout.state)))

    @property
    def airflow_url(self) -> str:
        return airflow_url(self._ports)

    @property
    def mlflow_url(self) -> str:
        return mlflow_url(self._ports)

    @property
    def storage_url(self) -> str:
        return emulator_url(self._ports)

    @property
    def _ports(self) -> Mapping[str, int]:
        return StackState.read(self.layout.state_file).ports

    def _remembered(self) -> StackState:
        state = StackState.read(self.layout.state_file)
        return replace(state, ports=choose_ports(_WITH_PORT, state.ports, running=state.living()))

    def _backing(self, ports: Mapping[str, int]) -> tuple[Service, ...]:
        storage = storage_services(self.layout, ports)
        return (*storage, kube_service(self.layout, ports), mlflow_service(self.layout, ports))

    def _airflow(self, ports: Mapping[str, int]) -> tuple[Service, ...]:
        keys = AirflowKeys.kept_in(self.layout.keys_file)
        return airflow_services(self.layout, ports, keys) if self._with_airflow else ()

    def _airflow_environment(self, ports: Mapping[str, int]) -> dict[str, str]:
        return airflow_environment(self.layout, ports, AirflowKeys.kept_in(self.layout.keys_file))

    def _start(self, names: Collection[str], state: StackState) -> StackState:
        self._report(f"  starting {', '.join(sorted(names))}")
        state = self._clear_the_way(names, state)
        write_images(self.layout, state.ports, self._imports)
        backing = self._backing(state.ports)
        state = self._launch(backing, names, state)
        emulator = [service for service in backing if service.name == EMULATOR]
        await_ready(emulator, state.processes, self.layout.log, report=lambda line: None)
        make_bucket(state.ports)
        state = self._prepare_database(state)
        return self._launch(self._airflow(state.ports), names, state)

    def _clear_the_way(self, names: Collection[str], state: StackState) -> StackState:
        """End outdated processes of these services, and whatever a crash left behind."""
        service_process.end([process for name, process in state.living().items() if name in names])
        kept = {name: process for name, process in state.living().items() if name not in names}
        self._end_strays(spared=kept.values())
        return self._remember(replace(state, processes=kept))

    def _launch(self, services: Iterable[Service], names: Collection[str], state: StackState) -> StackState:
        for service in services:
            if service.name in names:
                process = service_process.start(service, self.layout.log(service.name))
                state = self._remember(state.with_process(service.name, process))
        return state

    def _prepare_database(self, state: StackState) -> StackState:
        if state.database_version == wanted_version():
            return state
        self._report("  preparing Airflow's database")
        prepare_database(self.layout, base_environment(self.layout) | self._airflow_environment(state.ports))
        return self._remember(replace(state, database_version=wanted_version()))

    def _remember(self, state: StackState) -> StackState:
        state.write(self.layout.state_file)
        return state

    def _end(self, state: StackState, names: Collection[str]) -> None:
        living = state.living()
        service_process.end([living[name] for name in names if name in living])
        for name in sorted(living.keys() & names):
            self._report(f"  {name:<14} ended")

    def _end_strays(self, spared: Collection[service_process.ServiceProcess] = ()) -> None:
        if strays := service_process.end_strays(self.layout.state, spared):
            self._report(f"  {strays} process(es) that a crash had left behind: ended")


def runs(service: Service, state: StackState) -> bool:
    """Tell whether the service's process lives, and was started as it would be started now."""
    process = state.processes.get(service.name)
    return process is not None and process.living() is not None and process.fingerprint == service.fingerprint


def ready(service: Service, state: StackState) -> bool:
    return service.ready.objection(state.processes[service.name].created_at) is None
