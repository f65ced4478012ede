"""One pod on the node, from bound to ended: what a kubelet's pod worker does, told in order.

It reports through a function that it is given, and knows neither the store nor the other pods.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from lockstep.local.kube.api_object import Json, timestamp, uid_of
from lockstep.local.kube.container_log import ContainerLog
from lockstep.local.kube.container_process import ContainerProcess
from lockstep.local.kube.container_spec import CannotCreate, ContainerSpec, container_spec
from lockstep.local.kube.event_recorder import EventRecorder
from lockstep.local.kube.image import Image, InvalidImages, normalised, read_images
from lockstep.local.kube.memory_guard import MemoryGuard
from lockstep.local.kube.pod_status import Ended, ended_status, failed_status, running_status, waiting_status
from lockstep.local.kube.process_ledger import ProcessLedger
from lockstep.local.kube.quantity import memory_limit_bytes

_MARKER = "LOCKSTEP_TERMINATION_LOG"  # of a pod's own, so it marks the pod's processes too
_PASSED_ON = ("HOME", "LANG", "TMPDIR")
_TERMINATION_MESSAGE_BYTES = 4096
_LOG_TAIL_BYTES = 2048
_LOG_TAIL_LINES = 80
_FIRST_PAUSE_S = 10.0
_LONGEST_PAUSE_S = 300.0
_START_ERROR_CODE = 128

Report = Callable[[Callable[[Json], Json]], None]


class PodWorker:
    """Runs one pod. `report` stores the status that its argument makes of the pod as it is now."""

    def __init__(
        self,
        pod: Json,
        *,
        folder: Path,
        images_file: Path,
        report: Report,
        events: EventRecorder,
        ledger: ProcessLedger,
        guard: MemoryGuard,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.log = ContainerLog(log_file(folder))
        self._pod = pod
        self._container: Json = pod["spec"]["containers"][0]
        self._message_file = folder / "termination-log"
        self._images_file = images_file
        self._report = report
        self._events = events
        self._ledger = ledger
        self._guard = guard
        self._process: ContainerProcess | None = None
        self._stopping = asyncio.Event()
        self._cause = ("", "")

    async def run(self) -> None:
        """Bring the pod to its end; nothing of it runs when this returns."""
        self._report(lambda pod: waiting_status(pod, "ContainerCreating"))
        deadline = self._start_deadline()
        try:
            if (spec := await self._creatable()) is not None:
                await self._run_container(spec)
            elif self._cause[0]:
                self._report(lambda pod: failed_status(pod, *self._cause))
        finally:
            self.log.close()
            if deadline is not None:
                deadline.cancel()

    def stop(self, grace_s: float, reason: str = "", message: str = "") -> None:
        """End the pod within the grace period; `reason` and `message` become the pod's own, if given."""
        if reason:
            self._cause = (reason, message)
        if self._process is not None:
            if not self._stopping.is_set():
                self._events.normal(self._pod, "Killing", f"Stopping container {self._container['name']}")
            self._process.stop(grace_s)
        self._stopping.set()

    def _start_deadline(self) -> asyncio.TimerHandle | None:
        if (allowed_s := self._pod["spec"].get("activeDeadlineSeconds")) is None:
            return None
        return asyncio.get_running_loop().call_later(allowed_s, self._pass_deadline)

    def _pass_deadline(self) -> None:
        message = "Pod was active on the node longer than the specified deadline"
        self._events.normal(self._pod, "DeadlineExceeded", message)
        self.stop(self._pod["spec"]["terminationGracePeriodSeconds"], "DeadlineExceeded", message)

    async def _creatable(self) -> ContainerSpec | None:
        """Try until the container can be created, ever more slowly; None when asked to stop first."""
        for pause_s in _pauses_s():
            try:
                return self._spec()
            except CannotCreate as problem:
                self._report_problem(problem)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), pause_s)
            if self._stopping.is_set():
                return None
        raise AssertionError("the pauses never end")

    def _spec(self) -> ContainerSpec:
        machine_env = {key: os.environ[key] for key in _PASSED_ON if key in os.environ}
        return container_spec(self._pod, self._image(), machine_env)

    def _image(self) -> Image:
        name = self._container["image"]
        try:
            images = read_images(self._images_file)
        except InvalidImages as error:
            raise CannotCreate("ErrImagePull", str(error)) from error
        if (image := images.get(normalised(name))) is None:
            known = ", ".join(sorted(images))
            raise CannotCreate("ErrImagePull", f'no image "{name}" on this machine; it has: {known}')
        self._events.normal(
            self._pod, "Pulled", f'Container image "{name}" already present on machine and can be accessed by the pod'
        )
        return image

    def _report_problem(self, problem: CannotCreate) -> None:
        message = str(problem)
        if problem.reason != "ErrImagePull":
            self._events.warning(self._pod, "Failed", f"Error: {message}")
            self._report(lambda pod: waiting_status(pod, problem.reason, message))
            return
        name = self._container["image"]
        self._events.normal(self._pod, "Pulling", f'Pulling image "{name}"')
        self._events.warning(self._pod, "Failed", f'Failed to pull image "{name}": {message}')
        self._events.warning(self._pod, "Failed", "Error: ErrImagePull")
        self._report(lambda pod: waiting_status(pod, "ErrImagePull", message))
        self._events.normal(self._pod, "BackOff", f'Back-off pulling image "{name}"')
        self._events.warning(self._pod, "Failed", "Error: ImagePullBackOff")
        back_off = f'Back-off pulling image "{name}": ErrImagePull: {message}'
        self._report(lambda pod: waiting_status(pod, "ImagePullBackOff", back_off))

    async def _run_container(self, spec: ContainerSpec) -> None:
        started_at = timestamp()
        self._events.normal(self._pod, "Created", "Container created")
        try:
            process = await self._start(spec)
        except OSError as error:
            self._report_start_error(spec, error)
            return
        self._events.normal(self._pod, "Started", "Container started")
        self._report(lambda pod: running_status(pod, started_at))
        ended = await self._ended(process, started_at)
        self._report(lambda pod: ended_status(pod, ended, *self._cause))

    async def _start(self, spec: ContainerSpec) -> ContainerProcess:
        self._message_file.touch()
        process = await ContainerProcess.start(spec, (_MARKER, str(self._message_file)), self.log)
        self._ledger.record(uid_of(self._pod), process.identity)
        self._guard.add(process, memory_limit_bytes(self._pod))
        self._process = process
        if self._stopping.is_set():
            process.stop(0)
        return process

    async def _ended(self, process: ContainerProcess, started_at: str) -> Ended:
        code = await process.wait()
        self._guard.remove(process)
        self._ledger.forget(uid_of(self._pod))
        reason = "OOMKilled" if process.passed_memory_limit else "Completed" if code == 0 else "Error"
        return Ended(
            exit_code=code,
            reason=reason,
            message=self._termination_message(code),
            started_at=started_at,
            finished_at=timestamp(),
        )

    def _report_start_error(self, spec: ContainerSpec, error: OSError) -> None:
        what = f"working directory {error.filename}" if error.filename == spec.working_directory else spec.arguments[0]
        message = f'failed to start container: exec: "{what}": {error.strerror}'
        if isinstance(error, FileNotFoundError) and error.filename != spec.working_directory:
            message = f'failed to start container: exec: "{what}": executable file not found in $PATH'
        self._events.warning(self._pod, "Failed", f"Error: {message}")
        ended = Ended(
            exit_code=_START_ERROR_CODE, reason="StartError", message=message, started_at=None, finished_at=timestamp()
        )
        self._report(lambda pod: ended_status(pod, ended, *self._cause))

    def _termination_message(self, exit_code: int) -> str:
        with contextlib.suppress(OSError), self._message_file.open("rb") as file:
            if message := file.read(_TERMINATION_MESSAGE_BYTES).decode(errors="replace"):
                return message
        if exit_code != 0 and self._container["terminationMessagePolicy"] == "FallbackToLogsOnError":
            return self.log.tail(lines=_LOG_TAIL_LINES, size_bytes=_LOG_TAIL_BYTES)
        return ""


def log_file(folder: Path) -> Path:
    return folder / "log"


def _pauses_s() -> Iterator[float]:
    pause_s = _FIRST_PAUSE_S
    while True:
        yield pause_s
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
