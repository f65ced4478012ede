"""What is said of a run follows from what its tasks returned."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from lockstep.local.airflow_api import TaskState, last_error
from lockstep.local.follow import in_order, progress_line
from lockstep.local.probe import objection_to_health
from lockstep.local.summary import RunSummary

TRAINING = {
    "step": 110,
    "epochs": 5,
    "workers": 2,
    "replicas": 2,
    "strategy": "MultiWorkerMirroredStrategy",
    "run_directory": "gs://lockstep/runs/train_digits/today",
    "sharding": {"policy": "FILE", "files": 8, "workers": 2, "reason": "8 files are a multiple of 2 workers"},
    "scaling": {
        "per_replica_batch_size": 32,
        "global_batch_size": 64,
        "learning_rate": 0.002,
        "warmup_steps": 22,
        "steps_per_epoch": 22,
        "train_samples": 1437,
    },
    "metrics": {"loss": 0.1, "eval_accuracy": 0.9771},
    "seconds": {"rendezvous": 1.0, "train": 20.0, "export": 3.0},
}


def task(task_id: str, seconds: float | None, minute: int | None) -> TaskState:
    started = None if minute is None else datetime(2026, 1, 1, 0, minute, tzinfo=UTC)
    return TaskState(task_id=task_id, state="success", try_number=1, seconds=seconds, started_at=started)


def test_summary_says_all_that_the_run_has_to_show():
    summary = RunSummary(
        training=TRAINING,
        validation={
            "digest": "sha256:" + "ab" * 32,
            "files": 5,
            "size_bytes": 12345,
            "checkpoint": "checkpoints/step-110",
        },
        registration={"name": "digits", "version": "2", "alias": "champion"},
        tasks=[task("train", 31.4, 0), task("register", 2.0, 1)],
        seconds=40.2,
        peak_memory_bytes=3 * 2**30,
        run_url="http://127.0.0.1:1/run",
        model_url="http://127.0.0.1:2/model",
    )
    assert "\n".join(summary.lines()) == (
        "  workers            2 (2 replicas), MultiWorkerMirroredStrategy\n"
        "  sharding           FILE, 8 files: 8 files are a multiple of 2 workers\n"
        "  batch              32 per replica, 64 together\n"
        "  learning rate      0.002 after 22 warm-up steps\n"
        "  steps              110 = 5 epochs of 22 steps, 1437 samples\n"
        "  held-out accuracy  0.9771\n"
        "  checkpoint         gs://lockstep/runs/train_digits/today/checkpoints/step-110\n"
        "  verified           5 files, 12,345 bytes, sha256:abababababab…\n"
        "  model              digits version 2, alias champion\n"
        "  seconds            40: train 31, register 2\n"
        "  seconds in train   rendezvous 1.0, train 20.0, export 3.0\n"
        "  peak memory        3.0 GiB, all processes together\n"
        "  Airflow run        http://127.0.0.1:1/run\n"
        "  MLflow model       http://127.0.0.1:2/model"
    )


def test_a_resumed_training_says_where_it_went_on():
    summary = RunSummary(
        training=TRAINING | {"resumed_from_step": 100},
        validation={"digest": "sha256:", "files": 5, "size_bytes": 1, "checkpoint": "c"},
        registration={"name": "digits", "version": "2", "alias": "champion"},
        tasks=[],
        seconds=1.0,
        peak_memory_bytes=1,
        run_url="",
        model_url="",
    )
    assert "  resumed            from the backup of step 100" in summary.lines()


def test_progress_says_what_is_known():
    full = {"step": 40, "steps": 110, "epoch": 2, "epochs": 5, "loss": 0.51234, "steps_per_s": 12.3, "eta_s": 5.6}
    assert progress_line(full) == "step 40/110, epoch 2/5, loss 0.5123, 12 steps/s, 6 s left"
    assert progress_line(full | {"loss": None, "eta_s": None}) == "step 40/110, epoch 2/5, 12 steps/s"


def test_tasks_are_shown_in_the_order_in_which_they_ran():
    tasks = [task("waiting", None, None), task("second", 1.0, 2), task("first", 1.0, 1)]
    assert [found.task_id for found in in_order(tasks)] == ["first", "second", "waiting"]


@pytest.mark.parametrize(
    ("log", "error"),
    [
        pytest.param(
            [
                {
                    "event": "Task failed",
                    "level": "error",
                    "error_detail": [{"exc_type": "V", "exc_value": "why\nmore"}],
                },
                {"event": "clean-up failed too", "level": "error"},
            ],
            "V: why",
            id="the exception, not what was said after it",
        ),
        pytest.param([{"event": "killed", "level": "error"}], "killed", id="no exception: the last error"),
        pytest.param([{"event": "fine", "level": "info"}], None, id="no error at all"),
    ],
)
def test_the_error_of_a_task(log, error):
    assert last_error(log) == error


@pytest.mark.parametrize(
    ("health", "objection"),
    [
        pytest.param({"status": "healthy", "latest_scheduler_heartbeat": "1970-01-01T00:20:00Z"}, None, id="fresh"),
        pytest.param(
            {"status": "healthy", "latest_scheduler_heartbeat": "1970-01-01T00:10:00Z"},
            "no heartbeat since it was started",
            id="that of a predecessor",
        ),
        pytest.param(
            {"status": "unhealthy", "latest_scheduler_heartbeat": "1970-01-01T00:20:00Z"},
            "Airflow calls it unhealthy",
            id="stale",
        ),
        pytest.param({}, "Airflow calls it unknown", id="never seen"),
    ],
)
def test_a_heartbeat_counts_if_it_is_younger_than_the_process(health, objection):
    assert objection_to_health(health, "scheduler", started_at=1000.0) == objection
