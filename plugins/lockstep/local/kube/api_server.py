"""The server: one process, one event loop, one state folder; its pods end with it.

A second server on the same state folder is refused: it would take the first one's pods for leftovers.
"""

from __future__ import annotations

import asyncio
import fcntl
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import FrameType

import uvicorn

from lockstep.local.certificates import server_context
from lockstep.local.kube.discovery import GIT_VERSION
from lockstep.local.kube.garbage_collector import GarbageCollector
from lockstep.local.kube.image import read_images
from lockstep.local.kube.kubeconfig import token, write_kubeconfig
from lockstep.local.kube.kubelet import Kubelet
from lockstep.local.kube.object_store import ObjectStore
from lockstep.local.kube.process_ledger import end_leftover_processes
from lockstep.local.kube.registry import Registry
from lockstep.local.kube.routes import application

ADDRESS = "127.0.0.1"
_HOSTS = (ADDRESS, "localhost")
_OPEN_REQUESTS_TIMEOUT_S = 1
_IDLE_CONNECTION_TIMEOUT_S = 300


class StateInUse(RuntimeError):
    """Another server runs on the state folder."""


async def serve(state: Path, images_file: Path, kubeconfig: Path, port: int) -> None:
    """Serve until SIGTERM or SIGINT; the kubeconfig is written once requests are answered. Port 0 is any free one.

    Raises InvalidImages, StateInUse, OSError (port in use).
    """
    read_images(images_file)
    with _sole_user(state), socket.create_server((ADDRESS, port)) as listening:
        where = f"{ADDRESS}:{listening.getsockname()[1]}"
        registry = Registry(ObjectStore(state / "objects"))
        registry.ensure_namespace("default")
        kubelet = Kubelet(registry, state, images_file, GIT_VERSION)
        app = application(registry, kubelet, token(state), where)
        config = uvicorn.Config(
            app,
            log_level="warning",
            lifespan="off",
            ws="none",
            timeout_keep_alive=_IDLE_CONNECTION_TIMEOUT_S,
            timeout_graceful_shutdown=_OPEN_REQUESTS_TIMEOUT_S,
            ssl_context_factory=lambda _config, _default: server_context(state, _HOSTS),
        )
        server = ApiServer(
            config, kubelet, registry.store, partial(write_kubeconfig, kubeconfig, f"https://{where}", state)
        )
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(server.serve(sockets=[listening]))
                tasks.create_task(kubelet.run())
                tasks.create_task(GarbageCollector(registry).run())
        finally:
            end_leftover_processes(state)


class ApiServer(uvicorn.Server):
    """uvicorn's server, which says when it is ready and ends the pods before the connections."""

    def __init__(
        self, config: uvicorn.Config, kubelet: Kubelet, store: ObjectStore, on_ready: Callable[[], None]
    ) -> None:
        super().__init__(config)
        self._kubelet = kubelet
        self._store = store
        self._on_ready = on_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._on_ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await self._kubelet.stop()
        self._store.close_watches()
        await super().shutdown(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """End in order, whatever the signal; uvicorn would raise it again at the end and spoil the exit code."""
        self.should_exit = True


@contextmanager
def _sole_user(state: Path) -> Iterator[None]:
    state.mkdir(parents=True, exist_ok=True)
    with (state / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise StateInUse(f"{state}: another server runs on this state folder; end it first") from error
        yield
