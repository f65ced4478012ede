"""The commands of the one-machine stack: `python -m lockstep.local up | down | status | train`."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from lockstep.local.layout import PROJECT_ROOT
from lockstep.local.stack import ServiceStatus, Stack, StackFailed


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
        command.add_argument("--state", type=Path, default=PROJECT_ROOT / ".lockstep", help="folder of the stack's files")
        command.add_argument("--without-airflow", action="store_true", help="leave out Airflow's four processes")
    return parser.parse_args(arguments)


_SUMMARIES = {
    "up": "start what does not run, and wait until all is ready",
    "down": "end every process of the stack; its files stay",
    "status": "show the services; exit status 3 unless all are ready",
}
_COMMANDS = {"up": up, "down": down, "status": status}


def main() -> int:
    arguments = parse(sys.argv[1:])
    stack = Stack(arguments.state, with_airflow=not arguments.without_airflow, report=say)
    try:
        return _COMMANDS[arguments.command](stack)
    except StackFailed as failure:
        print(f"lockstep.local: {failure}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
