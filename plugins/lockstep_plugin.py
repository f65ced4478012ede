"""The one file that Airflow executes from this folder (see .airflowignore): it registers, and holds no logic."""

from __future__ import annotations

from airflow.plugins_manager import AirflowPlugin

from lockstep.links import ModelVersionLink, RunDirectoryLink


class LockstepPlugin(AirflowPlugin):
    """What Airflow has to know of Lockstep; DAG files import operators from the package, the triggerer triggers."""

    name = "lockstep"
    operator_extra_links = [ModelVersionLink(), RunDirectoryLink()]  # noqa: RUF012 - Airflow reads a plain list
