"""Follows a DAG run to its end: every change of a task's state, and the training's own progress, as lines."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lockstep.local.airflow_api import FINISHED, AirflowApi, TaskState

_ASK_EVERY_S = 1.0
_MEMORY_EVERY_S = 5.0


@dataclass(frozen=True, kw_only=True, slots=True)
class FollowedRun:
    """How a run ended: its state, its tasks in the order in which they ran, its length and the stack's peak memory."""

    state: str
    tasks: Sequence[TaskState]
    seconds: float
    peak_memory_bytes: int


class RunFollower:
    """Follows one run. `progress` reads the training's progress.json, `memory` measures the stack in bytes."""

    def __init__(
        self,
        api: AirflowApi,
        dag_id: str,
        run_id: str,
        *,
        report: Callable[[str], None],
        progress: Callable[[], Mapping[str, Any] | None],
        memory: Callable[[], int],
    ) -> None:
        self._api = api
        self._dag_id = dag_id
        self._run_id = run_id
        self._report = report
        self._progress = progress
        self._memory = memory
        self._started = time.monotonic()
        self._peak_bytes = 0
        self._measured_at = 0.0
        self._seen: dict[str, str | None] = {}
        self._reported: Mapping[str, Any] | None = None

    def follow(self) -> FollowedRun:
        """Return once the run has succeeded or failed."""
        while True:
            state = self._api.run_state(self._dag_id, self._run_id)
            tasks = self._api.tasks(self._dag_id, self._run_id)
            self._report_changes(tasks)
            self._report_progress(tasks)
            self._measure()
            if state in FINISHED:
                return FollowedRun(
                    state=state, tasks=in_order(tasks), seconds=self._elapsed(), peak_memory_bytes=self._peak_bytes
                )
            time.sleep(_ASK_EVERY_S)

    def _report_changes(self, tasks: Sequence[TaskState]) -> None:
        for task in in_order(tasks):
            if task.state != self._seen.get(task.task_id):
                self._seen[task.task_id] = task.state
                self._say(f"{task.task_id:<15} {task.state or 'none'}{self._reason(task)}")

    def _reason(self, task: TaskState) -> str:
        if task.state not in ("failed", "up_for_retry"):
            return ""
        return f": {self._api.error_of(self._dag_id, self._run_id, task)}"

    def _report_progress(self, tasks: Sequence[TaskState]) -> None:
        if not any(task.task_id == "train" and task.state in ("running", "deferred") for task in tasks):
            return
        progress = self._progress()
        if progress is not None and progress != self._reported:
            self._reported = progress
            self._say(f"{'train':<15} {progress_line(progress)}")

    def _measure(self) -> None:
        if time.monotonic() - self._measured_at >= _MEMORY_EVERY_S:
            self._measured_at = time.monotonic()
            self._peak_bytes = max(self._peak_bytes, self._memory())

    def _say(self, text: str) -> None:
        self._report(f"  {self._elapsed():5.0f} s  {text}")

    def _elapsed(self) -> float:
        return time.monotonic() - self._started


def in_order(tasks: Sequence[TaskState]) -> list[TaskState]:
    """Return the tasks by start, those that have not started last."""
    return sorted(tasks, key=lambda task: (task.started_at is None, task.started_at and task.started_at.timestamp()))


def progress_line(progress: Mapping[str, Any]) -> str:
    """Say a progress.json in one line; a number that is not there is left out."""
    parts = [
        f"step {progress.get('step')}/{progress.get('steps')}",
        f"epoch {progress.get('epoch')}/{progress.get('epochs')}",
        *(text.format(progress[key]) for key, text in _NUMBERS.items() if progress.get(key) is not None),
    ]
    return ", ".join(parts)


_NUMBERS = {"loss": "loss {:.4f}", "steps_per_s": "{:.0f} steps/s", "eta_s": "{:.0f} s left"}
