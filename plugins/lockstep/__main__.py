"""`python -m lockstep plan <dag> <task>`: the exact manifests of a task's gang, for a person or for `kubectl`.

Finding the DAG, rendering its task and writing text are left to others; nothing is sent anywhere. The one-machine stack
has commands of its own: `python -m lockstep.local`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from datetime import datetime
from typing import Any

from lockstep.assignment import parse_assignment
from lockstep.errors import LockstepError

FORMATS = ("yaml", "json")


def main(given: Sequence[str] | None = None) -> int:
    """Run the command line `given`, or this process' own; return the exit status."""
    arguments = _parse(given)
    try:
        with redirect_stdout(sys.stderr):  # Airflow logs there, and DAG files may print
            text = plan(arguments)
    except _refusals() as refusal:
        print(f"lockstep plan: {refusal}", file=sys.stderr)
        return 1
    print(text, end="")
    return 0


def plan(arguments: argparse.Namespace) -> str:
    """The gang's manifests as text. Raises one of `_refusals()`."""
    from lockstep.dag_search import find_dag
    from lockstep.gang_manifests import as_json, as_yaml
    from lockstep.planned_gang import plan_task

    gang = plan_task(
        find_dag(arguments.dag, arguments.dag_id),
        arguments.task,
        params=dict(arguments.param),
        logical_date=arguments.logical_date,
        returned=dict(arguments.returned),
        run_id=arguments.run_id,
        map_index=arguments.map_index,
    )
    return (as_json if arguments.format == "json" else as_yaml)(gang.manifests)


def _refusals() -> tuple[type[Exception], ...]:
    """What is wrong with the request, or with the DAG, and no fault of ours."""
    from airflow.sdk.exceptions import ParamValidationError
    from jinja2 import TemplateError

    from lockstep.dag_check import DagRefused
    from lockstep.planned_gang import NoGang

    return LockstepError, DagRefused, NoGang, LookupError, ParamValidationError, TemplateError


def _parse(given: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m lockstep", description=__doc__.split("\n\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("plan", help="print the Kubernetes objects that a task would create")
    command.add_argument("dag", help="path of a DAG file, or id of a DAG in Airflow's DAGs folder")
    command.add_argument("task", help="id of a task that starts a gang")
    command.add_argument("--dag-id", help="which DAG, where the file has several")
    _add_run(command)
    command.add_argument("--format", choices=FORMATS, default="yaml")
    return parser.parse_args(given)


def _add_run(command: argparse.ArgumentParser) -> None:
    assignments: dict[str, Any] = {"action": "append", "default": [], "type": parse_assignment}
    command.add_argument("--param", metavar="KEY=VALUE", help="parameter of the run; may be repeated", **assignments)
    command.add_argument(
        "--returned", metavar="TASK=JSON", help="what an upstream task has returned, for templates", **assignments
    )
    command.add_argument("--run-id", help="of the run; names of pods follow from it")
    command.add_argument("--logical-date", type=datetime.fromisoformat, help="of the run, ISO 8601; default: now")
    command.add_argument("--map-index", type=int, default=-1, help="which instance of a mapped task")


if __name__ == "__main__":
    sys.exit(main())
