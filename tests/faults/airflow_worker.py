"""One try of a task in a process of its own, as an Airflow worker runs it, for the test to kill at any moment.

A fork server has all imports ready, so that a try begins within milliseconds.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from multiprocessing import forkserver
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from airflow.providers.cncf.kubernetes.hooks import kubernetes as _hook  # noqa: F401 - for the fork server
from airflow.providers.cncf.kubernetes.operators import pod as _pod  # noqa: F401

from lockstep import kubernetes_cluster as _cluster  # noqa: F401
from lockstep.names import GangId
from lockstep.operators.gang import GangOperator
from lockstep.training_spec import TrainingSpec
from tests.faults.obedient_gang import ObedientGang
from tests.local.kube.running_server import IMAGE, ROOT

SETTINGS = {"IMAGE": IMAGE, "RENDEZVOUS": "loopback", "RUN_ROOT": "gs://bucket/runs"}
WAIT_S = 60.0


class ObedientOperator(GangOperator):
    """Three workers that do as the test orders; no restarts of its own."""

    def __init__(self, *, command: Sequence[str], **kwargs: Any) -> None:
        super().__init__(timeouts={"grace_s": 2}, restarts={"max_infra_restarts": 0}, **kwargs)
        self.command = command

    def spec(self, context: Any) -> TrainingSpec:
        training = {"job": "a:B", "train_data": "gs://bucket/*", "global_batch_size": 1}
        return self._spec(context, workers=3, training=training, command=tuple(self.command))

    def conclude(self, context: Any) -> str:
        return "done"


def context_of(gang: GangId, *, try_number: int) -> Any:
    started = datetime.now(UTC)
    given = {"dag_id": gang.dag_id, "run_id": gang.run_id, "task_id": gang.task_id, "map_index": -1}
    return {"ti": SimpleNamespace(**given, start_date=started, try_number=try_number, max_tries=2)}


def operator_of(gang: ObedientGang, *, deferrable: bool) -> ObedientOperator:
    return ObedientOperator(task_id="train", command=gang.command, deferrable=deferrable)


def run_next_try(gang: ObedientGang) -> Any:
    """As Airflow does in a worker's process, here: raises TaskDeferred, or what ends the task."""
    operator, context = operator_of(gang, deferrable=True), context_of(gang.gang, try_number=2)
    return operator.run_gang(operator.plan(context), context)


def _work(gang: ObedientGang, environment: dict[str, str], deferrable: bool, before_defer: Path) -> None:
    os.environ.update(environment)
    operator, context = operator_of(gang, deferrable=deferrable), context_of(gang.gang, try_number=1)
    signal.signal(signal.SIGTERM, lambda *_: operator.on_kill())

    def stay(*_: object) -> None:
        before_defer.touch()
        time.sleep(WAIT_S)

    operator._defer = stay  # type: ignore[method-assign]
    operator.run_gang(operator.plan(context), context)


@contextmanager
def airflow_worker(gang: ObedientGang, *, deferrable: bool = True) -> Iterator[BaseProcess]:
    """The process of one try, which stays where it would defer (`before_defer` is then in the gang's folder)."""
    spawner = multiprocessing.get_context("forkserver")
    _start_fork_server()
    environment = {name: value for name, value in os.environ.items() if name.startswith("AIRFLOW")}
    worker = spawner.Process(target=_work, args=(gang, environment, deferrable, before_defer(gang)))
    worker.start()
    try:
        yield worker
    finally:
        worker.kill()
        worker.join(WAIT_S)


def before_defer(gang: ObedientGang) -> Path:
    return gang.folder / "before_defer"


def _start_fork_server() -> None:
    """With this project on its path, wherever the tests are run from."""
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT / "plugins"), str(ROOT)])
    forkserver.set_forkserver_preload([__name__])
    forkserver.ensure_running()
    if before is None:
        del os.environ["PYTHONPATH"]
    else:
        os.environ["PYTHONPATH"] = before
