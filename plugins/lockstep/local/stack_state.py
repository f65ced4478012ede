"""What a stack remembers between two commands: its ports and its processes."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from lockstep.local.service_process import ServiceProcess

SCHEMA = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class StackState:
    """`processes` is in the order in which they were started."""

    ports: Mapping[str, int] = field(default_factory=dict)
    processes: Mapping[str, ServiceProcess] = field(default_factory=dict)
    database_version: str | None = None

    def living(self) -> dict[str, ServiceProcess]:
        return {name: process for name, process in self.processes.items() if process.living() is not None}

    def with_process(self, name: str, process: ServiceProcess) -> StackState:
        others = {known: value for known, value in self.processes.items() if known != name}
        return replace(self, processes=others | {name: process})

    @classmethod
    def read(cls, file: Path) -> StackState:
        """Return the state of the file; a missing, torn or foreign one counts as empty."""
        try:
            known = json.loads(file.read_text())
            if known["schema"] != SCHEMA:
                return cls()
            processes = {name: ServiceProcess(**process) for name, process in known["processes"].items()}
            return cls(ports=known["ports"], processes=processes, database_version=known["database_version"])
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return cls()

    def write(self, file: Path) -> None:
        """Replace the file in one step."""
        file.parent.mkdir(parents=True, exist_ok=True)
        new = file.with_suffix(".new")
        new.write_text(json.dumps({"schema": SCHEMA, **asdict(self)}, indent=2))
        os.replace(new, file)


@contextmanager
def locked(lock_file: Path) -> Iterator[None]:
    """Let one command at a time work on a stack; the lock ends with its process, however that ends."""
    lock_file.parent.mkdir(parents=True, exist_ok=True)
    with lock_file.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
