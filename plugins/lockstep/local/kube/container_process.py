"""One running container: a process with a session of its own, its output going to the log, its end awaited.

Signals follow Kubernetes: SIGTERM to the first process only, and only if it has a handler; SIGKILL to all of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal

from lockstep.local.kube.container_log import ContainerLog
from lockstep.local.kube.container_spec import ContainerSpec
from lockstep.local.kube.process_tree import ContainerIdentity, catches, container_identity, end_processes

_DRAIN_TIMEOUT_S = 2.0


class _Output(asyncio.Protocol):
    """Moves what arrives on the pipe into the log."""

    def __init__(self, log: ContainerLog) -> None:
        self._log = log
        self.ended = asyncio.Event()

    def data_received(self, data: bytes) -> None:
        self._log.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended.set()


class ContainerProcess:
    """A container that was started; made by `start`."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        identity: ContainerIdentity,
        pipe: asyncio.ReadTransport,
        output: _Output,
        log: ContainerLog,
    ) -> None:
        self.identity = identity
        self.passed_memory_limit = False
        self._process = process
        self._pipe = pipe
        self._output = output
        self._log = log
        self._kill: asyncio.TimerHandle | None = None

    @classmethod
    async def start(cls, spec: ContainerSpec, marker: tuple[str, str], log: ContainerLog) -> ContainerProcess:
        """Start the process; raises OSError when there is no such program or directory.

        `marker` is a variable whose value no other container has; it comes over the spec's own.
        """
        reading, writing = os.pipe()
        try:
            process = await asyncio.create_subprocess_exec(
                *spec.arguments,
                env={**spec.env, marker[0]: marker[1]},
                cwd=spec.working_directory,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=writing,
                stderr=writing,
                start_new_session=True,
            )
        except BaseException:
            os.close(reading)
            raise
        finally:
            os.close(writing)
        loop = asyncio.get_running_loop()
        pipe, output = await loop.connect_read_pipe(lambda: _Output(log), os.fdopen(reading, "rb", buffering=0))
        identity = container_identity(process.pid, "=".join(marker))
        return cls(process, identity, pipe, output, log)

    async def wait(self) -> int:
        """Wait for the end; return the exit code as a container runtime gives it (128 + n for signal n).

        When the first process ends, all others of the container are killed; then the rest of the output is read.
        """
        code = await self._process.wait()
        if self._kill is not None:
            self._kill.cancel()
        await asyncio.to_thread(end_processes, self.identity)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._output.ended.wait(), _DRAIN_TIMEOUT_S)
        self._pipe.close()
        self._log.close()
        return 128 - code if code < 0 else code

    def stop(self, grace_s: float) -> None:
        """Ask the process to end, and kill it after the grace period; a second call can only hasten that."""
        loop = asyncio.get_running_loop()
        first = self._kill is None
        if self._kill is not None and self._kill.when() <= loop.time() + grace_s:
            return
        if self._kill is not None:
            self._kill.cancel()
        self._kill = loop.call_later(grace_s, self.kill)
        if first and self._process.returncode is None and catches(self._process.pid, signal.SIGTERM):
            self._process.terminate()

    def kill(self) -> None:
        """Kill the first process; `wait` sees to the others."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
