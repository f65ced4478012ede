"""A DAG file -> its DAG, or everything that Airflow's DAG processor would object to. No database, no cluster.

For tests: what a deployment would find out after the upload is found out before the commit.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from lockstep.parsing import nearest

if TYPE_CHECKING:
    from airflow.sdk import DAG


class DagRefused(AssertionError):
    """Airflow would not take the file, or not find the DAG in it; the message shows what it would show."""


def load_dag(file: Path, dag_id: str | None = None) -> DAG:
    """Return the DAG of `file`; `dag_id` may be left out where the file has only one.

    Raises:
        DagRefused: the file cannot be imported, a DAG in it has a cycle or a param whose default its own schema does
            not allow, it cannot be serialized for the scheduler, or it has no such DAG.
    """
    dag = _chosen(_dags_in(file), file, dag_id)
    _require_serializable(dag, file)
    return dag


def _dags_in(file: Path) -> Mapping[str, DAG]:
    from airflow.dag_processing.dagbag import DagBag

    if not file.is_file():
        raise DagRefused(f"there is no DAG file {file}")
    bag = DagBag(dag_folder=file.resolve())
    if bag.import_errors:
        raise DagRefused("\n".join(f"Airflow cannot import {path}:\n{why}" for path, why in bag.import_errors.items()))
    return bag.dags


def _chosen(dags: Mapping[str, DAG], file: Path, dag_id: str | None) -> DAG:
    if dag_id is None and len(dags) == 1:
        return next(iter(dags.values()))
    if dag_id is not None and dag_id in dags:
        return dags[dag_id]
    found = ", ".join(sorted(dags)) or "none (a DAG is found if it is a global of the module, or used with `with`)"
    wanted = (
        f"no DAG {dag_id!r}{nearest(dag_id, dags)}" if dag_id else "not exactly one DAG: name the one that is meant"
    )
    raise DagRefused(f"{file} has {wanted}; it has: {found}")


def _require_serializable(dag: DAG, file: Path) -> None:
    from airflow.serialization.serialized_objects import DagSerialization

    try:
        DagSerialization.to_dict(dag)
    except Exception as refusal:  # whatever an operator's own field raises
        raise DagRefused(f"{file}: {dag.dag_id} cannot be handed to the scheduler: {refusal}") from refusal
