"""Gangs and pods for tests: each builder shows only what matters to the case."""

from __future__ import annotations

from typing import Any

from lockstep.gang_view import GangView
from lockstep.names import GangId
from lockstep.parsing import parse
from lockstep.pod_snapshot import PodSnapshot
from lockstep.running_gang import RunningGang
from lockstep.training_spec import Timeouts, TrainingSpec

GANG = GangId(dag_id="nightly", run_id="manual__1", task_id="train")
LAUNCHED_AT = 1_000.0


def spec(**given: Any) -> TrainingSpec:
    training = {
        "job": "trainer.examples.digits:DigitsJob",
        "train_data": "gs://bucket/digits/train-*.tfrecord",
        "per_replica_batch_size": 32,
    }
    asked = {"image": "trainer:1", "workers": 2, "run_directory": "gs://bucket/runs/1", "training": training} | given
    return parse(TrainingSpec, asked, what="spec")


def running_gang(workers: int = 2, **given: Any) -> RunningGang:
    timeouts = Timeouts(**given.pop("timeouts", {}))
    return RunningGang(
        gang=GANG,
        namespace="default",
        attempt=1,
        launch="service-1",
        uids=tuple(uid(rank) for rank in range(workers)),
        timeouts=timeouts,
        launched_at=LAUNCHED_AT,
        **given,
    )


def uid(rank: int) -> str:
    return f"uid-{rank}"


def pod(rank: int, **status: Any) -> PodSnapshot:
    given = {"name": f"w{rank}", "uid": uid(rank), "rank": rank, "attempt": 1, "phase": "Pending"} | status
    return PodSnapshot(**given)


def running(rank: int) -> PodSnapshot:
    return pod(rank, phase="Running", started=True, started_at=LAUNCHED_AT)


def succeeded(rank: int) -> PodSnapshot:
    return pod(rank, phase="Succeeded", started=True, exit_code=0)


def failed(rank: int, *, exit_code: int | None = 1, **status: Any) -> PodSnapshot:
    return pod(rank, phase="Failed", started=exit_code is not None, exit_code=exit_code, **status)


def view(*pods: PodSnapshot, gone: tuple[int, ...] = ()) -> GangView:
    return GangView(startup_from=LAUNCHED_AT, pods={pod.rank: pod for pod in pods}, gone=frozenset(gone))
