"""A pytest plugin for repositories whose DAGs train with Lockstep: `-p lockstep.pytest_plugin`.

It gives fixtures that load a DAG, plan its gangs, and run it whole on the one-machine stack; docs/testing-your-dags.md
shows their use. What they do is in the files that they call; here they only get what they need, and lose it again.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pytest

from lockstep.local.layout import StackLayout

if TYPE_CHECKING:
    from airflow.sdk import DAG

    from lockstep.finished_run import FinishedRun
    from lockstep.local.stack import Stack
    from lockstep.planned_gang import PlannedGang

_STATE = tempfile.TemporaryDirectory(prefix="lockstep-pytest-", ignore_cleanup_errors=True)
_LAYOUT = StackLayout.of(Path(_STATE.name))
_DATABASE = f"sqlite:///{_LAYOUT.airflow_home / 'airflow.db'}"
_SECTION = "AIRFLOW__LOCKSTEP__"

if "airflow" not in sys.modules:
    # Airflow settles for a home and a database when it is first imported; no test may meet those of an installation.
    os.environ["AIRFLOW_HOME"] = str(_LAYOUT.airflow_home)
    os.environ["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"] = _DATABASE
    os.environ.pop("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN_ASYNC", None)
    os.environ["AIRFLOW__CORE__LOAD_EXAMPLES"] = "False"
    os.environ.setdefault("AIRFLOW__CORE__PLUGINS_FOLDER", str(_LAYOUT.plugins))


class LoadDag(Protocol):
    """`load(file, dag_id)` -> the DAG; a relative path starts at pytest's root folder."""

    def __call__(self, file: str | Path, dag_id: str | None = None) -> DAG: ...


class PlanGang(Protocol):
    """See `lockstep.planned_gang.plan_task`."""

    def __call__(
        self,
        dag: DAG,
        task_id: str,
        *,
        params: Mapping[str, Any] | None = None,
        logical_date: datetime | None = None,
        returned: Mapping[str, Any] | None = None,
        run_id: str | None = None,
        map_index: int = -1,
    ) -> PlannedGang: ...


class RunDag(Protocol):
    """See `lockstep.finished_run.run_to_the_end`."""

    def __call__(
        self,
        dag: DAG,
        *,
        params: Mapping[str, Any] | None = None,
        logical_date: datetime | None = None,
        retries: int | None = None,
        mark_success_pattern: str | None = None,
    ) -> FinishedRun: ...


@pytest.fixture
def lockstep_deployment() -> Mapping[str, str]:
    """Airflow's section `[lockstep]` in tests that use no stack. Override it with what your installation has."""
    return {"image": "trainer:test", "run_root": "gs://lockstep-test/runs"}


@pytest.fixture
def lockstep_settings(
    request: pytest.FixtureRequest, lockstep_deployment: Mapping[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`lockstep_deployment` in force, unless the test runs on the stack, which has settings of its own."""
    if "run_dag" in request.fixturenames:
        return
    for variable, value in _variables(lockstep_deployment).items():
        if variable not in os.environ:
            monkeypatch.setenv(variable, value)


@pytest.fixture
def lockstep_dag(lockstep_settings: None, pytestconfig: pytest.Config) -> LoadDag:
    """Load a DAG file as Airflow would, and return its DAG. Fails the test with whatever Airflow would object to."""

    def load(file: str | Path, dag_id: str | None = None) -> DAG:
        from lockstep.dag_check import load_dag

        return load_dag(pytestconfig.rootpath / file, dag_id)

    return load


@pytest.fixture
def gang_plan(lockstep_settings: None) -> PlanGang:
    """Render a training task's templates for given params and date, and return its gang as values. Needs no cluster."""
    from lockstep.planned_gang import plan_task

    return plan_task


@pytest.fixture(scope="session")
def lockstep_stack(pytestconfig: pytest.Config) -> Iterator[Stack]:
    """The one-machine stack without Airflow's own processes: cluster, storage and registry.

    Its pods import what the tests can: from pytest's root folder and its `pythonpath`. It ends with pytest, however
    pytest ends.
    """
    require_own_airflow()
    from lockstep.local.stack import Stack
    from lockstep.stack_guard import guarded

    imports = [pytestconfig.rootpath, *pytestconfig.getini("pythonpath")]
    stack = Stack(_LAYOUT.state, with_airflow=False, imports=imports, report=print)
    with guarded(stack):
        stack.up()
        yield stack


@pytest.fixture
def run_dag(lockstep_stack: Stack, monkeypatch: pytest.MonkeyPatch) -> RunDag:
    """Run a whole DAG on the stack by `dag.test()` and return what it left. The test's environment is the stack's."""
    for variable in [name for name in os.environ if name.startswith(_SECTION)]:
        monkeypatch.delenv(variable)
    for variable, value in lockstep_stack.environment().items():
        monkeypatch.setenv(variable, value)

    from lockstep.finished_run import run_to_the_end

    return run_to_the_end


def _variables(settings: Mapping[str, str]) -> dict[str, str]:
    return {f"{_SECTION}{key.upper()}": value for key, value in settings.items()}


def require_own_airflow() -> None:
    """Raise pytest.UsageError if runs would be recorded in another database than the stack's."""
    from airflow import settings

    if settings.SQL_ALCHEMY_CONN != _DATABASE:
        raise pytest.UsageError(
            "Airflow was imported before lockstep.pytest_plugin, and uses a database that is not the tests' own: load "
            "the plugin earlier, by -p lockstep.pytest_plugin among pytest's addopts"
        )
