"""A gang of real processes, each of which does what the test orders: nothing, until it is told."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from lockstep.loopback_ports import free_loopback_ports
from lockstep.names import GangId
from lockstep.pod_plan import GangPlan, plan_gang
from tests.local.kube.running_server import IMAGE
from tests.unit.builders import spec

WORKER = """
import fcntl, os, pathlib, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # no signal that it does not handle ends a process 1
mine = open(pathlib.Path({orders!r}, "rank-" + os.environ["LOCKSTEP_RANK"]), "w")
try:
    fcntl.flock(mine, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    pathlib.Path({orders!r}, "two at once").touch()
orders = pathlib.Path({orders!r}, os.environ["LOCKSTEP_ATTEMPT"], os.environ["LOCKSTEP_RANK"])
while not orders.exists():
    time.sleep(0.02)
exec(orders.read_text())
"""

DONE = "raise SystemExit(0)"


@dataclass(frozen=True, kw_only=True, slots=True)
class ObedientGang:
    """`folder` is where the workers look for their orders: Python, by attempt and rank."""

    folder: Path
    gang: GangId = field(
        default_factory=lambda: GangId(dag_id="faults", run_id=f"manual__{uuid.uuid4().hex[:8]}", task_id="train")
    )

    @property
    def command(self) -> tuple[str, ...]:
        return ("python", "-S", "-c", WORKER.format(orders=str(self.folder)))

    def plan(self, workers: int = 2, **given: Any) -> GangPlan:
        """Graces and time limits are short; `given` is more of the spec."""
        timeouts = {"grace_s": 2} | given.pop("timeouts", {})
        asked = {"image": IMAGE, "command": self.command, "rendezvous": "loopback", "timeouts": timeouts} | given
        ports = free_loopback_ports(workers)
        return plan_gang(spec(workers=workers, **asked), self.gang, attempt=1, loopback_ports=ports)

    def order(self, rank: int, code: str = DONE, *, attempt: int = 1) -> None:
        """Let a worker run `code`, now or as soon as it is there."""
        place = self.folder / str(attempt)
        place.mkdir(exist_ok=True)
        written = place / f"{rank}.written"
        written.write_text(code)
        written.rename(place / str(rank))

    def order_all(self, workers: int = 2, code: str = DONE, *, attempt: int = 1) -> None:
        for rank in range(workers):
            self.order(rank, code, attempt=attempt)

    def forget_orders(self) -> None:
        for place in self.folder.glob("*/*"):
            place.unlink()

    @property
    def two_at_once(self) -> bool:
        """Whether two workers of one rank ever ran at the same time: they would write to one run directory."""
        return (self.folder / "two at once").exists()

    def processes(self) -> dict[int, psutil.Process]:
        """The workers that run, by rank."""
        found = {}
        for process in psutil.process_iter():
            try:
                if str(self.folder) in " ".join(process.cmdline()) and process.status() != psutil.STATUS_ZOMBIE:
                    found[int(process.environ()["LOCKSTEP_RANK"])] = process
            except (psutil.Error, OSError, KeyError):
                continue  # gone meanwhile, or none of ours
        return found
