"""What the end-to-end tests ask the one-machine stack, beside the fixtures of Lockstep's own pytest plugin."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lockstep.local import service_process
from lockstep.local.airflow_api import AirflowApi
from lockstep.local.layout import PROJECT_ROOT
from lockstep.local.stack import Stack
from lockstep.stack_guard import guarded

Versions = Callable[[str], list[Any]]
TEST_DAGS = Path(__file__).parent / "dags"


@pytest.fixture(scope="session")
def airflow_stack() -> Iterator[Stack]:
    """A whole stack with a state of its own, and DAGs for tests beside the project's; after it, no process is left."""
    folder = Path(tempfile.mkdtemp(prefix="lockstep-scheduler-")).resolve()
    for file in (*PROJECT_ROOT.glob("dags/*.py"), *TEST_DAGS.glob("*.py")):
        (folder / "dags").mkdir(exist_ok=True)
        shutil.copy(file, folder / "dags")
    stack = Stack(folder, dags_folder=folder / "dags", report=print)
    with guarded(stack):
        stack.up()
        yield stack
    assert list(service_process.marked(folder)) == []
    shutil.rmtree(folder)


@pytest.fixture
def api(airflow_stack: Stack) -> Iterator[AirflowApi]:
    with AirflowApi(airflow_stack.airflow_url) as api:
        yield api


@pytest.fixture
def versions(lockstep_stack: Stack) -> Versions:
    """`versions(model_name)`: all versions of a model that the registry has."""
    from mlflow import MlflowClient

    client = MlflowClient(lockstep_stack.mlflow_url)
    return lambda name: list(client.search_model_versions(f"name = '{name}'"))
