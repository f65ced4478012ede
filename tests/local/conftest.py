"""The stack that the tests of this folder share, and a storage without the rest of it."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from lockstep.local import service_process
from lockstep.local.layout import StackLayout
from lockstep.local.ports import choose_ports
from lockstep.local.service_start import await_ready
from lockstep.local.stack import Stack
from lockstep.local.storage_service import EMULATOR, GATEWAY, make_bucket, storage_services, tensorflow_environment


@pytest.fixture
def state_folder() -> Iterator[Path]:
    """A folder for a stack's state; whatever still runs for it afterwards is ended, and makes the test fail."""
    folder = Path(tempfile.mkdtemp(prefix="lockstep-stack-")).resolve()
    yield folder
    left = service_process.end_strays(folder)
    shutil.rmtree(folder)
    assert left == 0, f"{left} process(es) were left"


@pytest.fixture
def stack(airflow_stack: Stack) -> Stack:
    return airflow_stack


@dataclass(frozen=True, kw_only=True)
class Storage:
    """An emulator with its gateway. `tensorflow` leads TensorFlow's gs:// to it."""

    emulator: str
    gateway: str
    authority: Path
    tensorflow: Mapping[str, str]


@pytest.fixture(scope="module")
def storage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Storage]:
    layout = StackLayout.of(tmp_path_factory.mktemp("storage"))
    ports = choose_ports((EMULATOR, GATEWAY), {}, running=())
    services = storage_services(layout, ports)
    processes = {service.name: service_process.start(service, layout.log(service.name)) for service in services}
    try:
        await_ready(services, processes, layout.log, print)
        make_bucket(ports)
        variables = tensorflow_environment(layout, ports)
        yield Storage(
            emulator=variables["STORAGE_EMULATOR_HOST"],
            gateway=variables["https_proxy"],
            authority=Path(variables["CURL_CA_BUNDLE"]),
            tensorflow=variables,
        )
    finally:
        service_process.end(list(processes.values()))
