"""What the end-to-end tests ask the one-machine stack, beside the fixtures of Lockstep's own pytest plugin."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from lockstep.local.airflow_api import AirflowApi
from lockstep.local.stack import Stack

Versions = Callable[[str], list[Any]]


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
