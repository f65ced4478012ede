"""The commands of the one-machine stack: `python -m lockstep.local up | down | status | train`."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from lockstep.assignment import parse_assignment
from lockstep.local.layout import PROJECT_ROOT
from lockstep.local.service_start import StackFailed
from lockstep.local.service_status import ServiceStatus
from lockstep.local.stack import Stack


def up(stack: Stack) -> int:
    started = time.time()
    say(f"one-machine stack in {stack.layout.state}")
    stack.up()
    say(f"up after {time.time() - started:.1f} s")
    say(f"  Airflow        {stack.airflow_url}")
    say(f"  MLflow         {stack.mlflow_url}")
    say(f"  kubectl        export KUBECONFIG={stack.layout.kubeconfig}")
    say("  `make down` ends it")
    return 0


def down(stack: Stack) -> int:
    stack.down()
    say("down: no process is left")
    return 0


def train(stack: Stack, params: Mapping[str, Any]) -> int:
    up(stack)
    # Imported late: the other commands need neither storage nor Airflow's vocabulary, and start faster.
    from lockstep.local import airflow_api, run_start, train

    try:
        train.train(stack, params, say)
    except (train.RunFailed, run_start.NotStarted, airflow_api.AirflowRefused) as failure:
        print(f"lockstep.local: {failure}", file=sys.stderr)
        return 1
    except airflow_api.AirflowSilent as failure:
        print(f"lockstep.local: {failure}\nIts log: {stack.layout.log('api-server')}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        say("no longer following; what has been started goes on, and the stack stays up")
        return 130
    say("the stack stays up; `make down` ends it and leaves no process behind")
    return 0


def status(stack: Stack) -> int:
    services = stack.status()
    for service in services:
        say(status_line(service))
    ready = bool(services) and all(service.objection is None for service in services)
    say("up" if ready else "not up: `make up` starts it")
    return 0 if ready else 3


def status_line(service: ServiceStatus) -> str:
    state = "ready" if service.objection is None else service.objection
    memory = f"{service.memory_bytes / 1e6:6.0f} MB" if service.pid else " " * 9
    return f"  {service.name:<14} {service.pid or '-':>8} {memory}  {service.url:<26} {state}"


def say(line: str) -> None:
    print(line, flush=True)


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m lockstep.local", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, summary in _SUMMARIES.items():
        command = commands.add_parser(name, help=summary, description=summary)
        command.add_argument(
            "--state", type=Path, default=PROJECT_ROOT / ".lockstep", help="folder of the stack's files"
        )
        command.add_argument("--without-airflow", action="store_true", help="leave out Airflow's four processes")
    commands.choices["train"].add_argument(
        "--param",
        action="append",
        default=[],
        type=parse_assignment,
        metavar="KEY=VALUE",
        help="parameter of the run, e.g. workers=3",
    )
    return parser.parse_args(arguments)


_SUMMARIES = {
    "up": "start what does not run, and wait until all is ready",
    "down": "end every process of the stack; its files stay",
    "train": "bring the stack up, run the DAG train_digits and follow it to its end",
    "status": "show the services; exit status 3 unless all are ready",
}
_COMMANDS: dict[str, Callable[[Stack, argparse.Namespace], int]] = {
    "up": lambda stack, arguments: up(stack),
    "down": lambda stack, arguments: down(stack),
    "status": lambda stack, arguments: status(stack),
    "train": lambda stack, arguments: train(stack, dict(arguments.param)),
}


def main() -> int:
    arguments = parse(sys.argv[1:])
    stack = Stack(arguments.state, with_airflow=not arguments.without_airflow, report=say)
    try:
        return _COMMANDS[arguments.command](stack, arguments)
    except (StackFailed, OSError) as failure:
        print(f"lockstep.local: {failure}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        say("interrupted; `make down` ends what was started")
        return 130


if __name__ == "__main__":
    sys.exit(main())
