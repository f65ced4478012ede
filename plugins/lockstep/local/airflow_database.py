"""Preparation of the stack's Airflow database: made once, brought up to date when Airflow's version changes."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from importlib.metadata import version

from lockstep.local.layout import StackLayout
from lockstep.local.service_start import StackFailed, tail

_TIMEOUT_S = 180.0
_LOG = "airflow-db"


def wanted_version() -> str:
    """Return the version whose database layout the installed Airflow expects."""
    return version("apache-airflow-core")


def prepare_database(layout: StackLayout, env: Mapping[str, str]) -> None:
    """Run Airflow's own migration. Raise `StackFailed` with the end of its log."""
    layout.airflow_home.mkdir(parents=True, exist_ok=True)
    log = layout.log(_LOG)
    command = (str(layout.programs / "airflow"), "db", "migrate")
    try:
        with log.open("wb") as output:
            subprocess.run(
                command,
                env=dict(env),
                cwd=layout.airflow_home,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=_TIMEOUT_S,
                check=True,
            )
    except subprocess.SubprocessError as error:
        raise StackFailed(f"{error}\n{tail(log)}") from error
