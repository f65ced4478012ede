"""A DAG by the name that a person gives it: the path of its file, or its id in Airflow's DAGs folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lockstep.dag_check import DagRefused, load_dag
from lockstep.parsing import nearest

if TYPE_CHECKING:
    from airflow.sdk import DAG


def find_dag(name: str, dag_id: str | None = None) -> DAG:
    """Return the DAG; `dag_id` says which one is meant where `name` is a file that has several.

    Raises DagRefused: there is none, or it cannot be imported.
    """
    if name.endswith((".py", ".zip")) or Path(name).is_file():
        return load_dag(Path(name), dag_id)
    from airflow.settings import DAGS_FOLDER

    return _in_folder(Path(DAGS_FOLDER), name)


def _in_folder(folder: Path, dag_id: str) -> DAG:
    from airflow.dag_processing.dagbag import BundleDagBag

    if not folder.is_dir():
        raise DagRefused(f"there is no DAGs folder {folder}: name the DAG's file, or set AIRFLOW__CORE__DAGS_FOLDER")
    bag = BundleDagBag(dag_folder=folder, bundle_path=folder)
    if dag_id in bag.dags:
        return bag.dags[dag_id]
    found = ", ".join(sorted(bag.dags)) or "none"
    broken = f"; Airflow cannot import {', '.join(sorted(bag.import_errors))}" if bag.import_errors else ""
    raise DagRefused(f"no DAG {dag_id!r}{nearest(dag_id, bag.dags)} in {folder}; it has: {found}{broken}")
