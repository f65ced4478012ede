"""The few calls of Airflow's public REST API (/api/v2) that following a run takes, with its answers parsed."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self
from urllib.parse import quote

import httpx

_TIMEOUT_S = 60.0
_PATIENCE_S = 180.0
_ASK_AGAIN_AFTER_S = 1.0
FINISHED = frozenset({"success", "failed"})


class AirflowRefused(Exception):
    """Airflow did not accept a request; the message is its own reason."""


class AirflowSilent(Exception):
    """Airflow's API server has not answered for a long time, or not at all to what must not be asked twice."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DagInfo:
    """A DAG as the API shows it. `next_run_after` is when the scheduler starts the next run, once it is not paused."""

    dag_id: str
    paused: bool
    next_logical_date: datetime | None
    next_run_after: datetime | None

    @classmethod
    def parse(cls, document: Mapping[str, Any]) -> Self:
        return cls(
            dag_id=document["dag_id"],
            paused=document["is_paused"],
            next_logical_date=moment(document["next_dagrun_logical_date"]),
            next_run_after=moment(document["next_dagrun_run_after"]),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskState:
    """One task instance. `seconds` is how long it has run so far, None before it starts."""

    task_id: str
    state: str | None
    try_number: int
    seconds: float | None
    started_at: datetime | None

    @classmethod
    def parse(cls, document: Mapping[str, Any]) -> Self:
        return cls(
            task_id=document["task_id"],
            state=document["state"],
            try_number=document["try_number"],
            seconds=document["duration"],
            started_at=moment(document["start_date"]),
        )


class AirflowApi:
    """Airflow's API server at `url`, which lets everybody in as admin. Close it, or use it as a context.

    Every method may raise `AirflowRefused`, and `AirflowSilent` after `patience_s` without an answer: a busy machine is
    no reason to lose sight of a run.
    """

    def __init__(self, url: str, *, patience_s: float = _PATIENCE_S) -> None:
        self._client = httpx.Client(base_url=url, timeout=_TIMEOUT_S, trust_env=False)
        self._patience_s = patience_s
        self._client.headers["Authorization"] = f"Bearer {self._token()}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def dag(self, dag_id: str) -> DagInfo | None:
        """Return the DAG, or None while Airflow has not read it."""
        answer = self._ask("GET", f"/api/v2/dags/{quote(dag_id)}")
        return None if answer.status_code == httpx.codes.NOT_FOUND else DagInfo.parse(accepted(answer))

    def import_errors(self) -> list[str]:
        """Return why DAG files could not be read: one line each, file and reason."""
        errors = accepted(self._ask("GET", "/api/v2/importErrors"))["import_errors"]
        return [f"{error['filename']}: {error['stack_trace'].strip().splitlines()[-1]}" for error in errors]

    def set_paused(self, dag_id: str, paused: bool) -> None:
        accepted(self._ask("PATCH", f"/api/v2/dags/{quote(dag_id)}", json={"is_paused": paused}))

    def trigger(self, dag_id: str, conf: Mapping[str, Any], logical_date: datetime | None) -> str:
        """Start a run and return its id. Raise `AirflowRefused` where Airflow finds the parameters wrong."""
        body = {"conf": dict(conf), "logical_date": logical_date and logical_date.isoformat()}
        try:
            answer = self._client.post(f"/api/v2/dags/{quote(dag_id)}/dagRuns", json=body)
        except httpx.TransportError as error:
            raise AirflowSilent(f"whether Airflow has started a run of {dag_id} is not known: {error}") from error
        return str(accepted(answer)["dag_run_id"])

    def scheduled_run(self, dag_id: str, logical_date: datetime) -> str | None:
        """Return the run that the scheduler has made for the date, or None."""
        moment_text = logical_date.isoformat()
        query = {"logical_date_gte": moment_text, "logical_date_lte": moment_text, "run_type": "scheduled"}
        runs = accepted(self._ask("GET", f"/api/v2/dags/{quote(dag_id)}/dagRuns", params=query))["dag_runs"]
        return runs[0]["dag_run_id"] if runs else None

    def run_state(self, dag_id: str, run_id: str) -> str:
        return str(accepted(self._ask("GET", run_path(dag_id, run_id)))["state"])

    def tasks(self, dag_id: str, run_id: str) -> list[TaskState]:
        answer = accepted(self._ask("GET", f"{run_path(dag_id, run_id)}/taskInstances"))
        return [TaskState.parse(task) for task in answer["task_instances"]]

    def returned(self, dag_id: str, run_id: str, task_id: str) -> Any:
        """Return what the task returned (its XCom), or None if it returned nothing."""
        path = f"{run_path(dag_id, run_id)}/taskInstances/{quote(task_id)}/xcomEntries/return_value"
        answer = self._ask("GET", path, params={"deserialize": "true"})
        return None if answer.status_code == httpx.codes.NOT_FOUND else accepted(answer)["value"]

    def error_of(self, dag_id: str, run_id: str, task: TaskState) -> str:
        """Return the error with which the task's last try ended, in one line: its log's, or else the scheduler's."""
        path = f"{run_path(dag_id, run_id)}/taskInstances/{quote(task.task_id)}/logs/{task.try_number}"
        answer = self._ask("GET", path, params={"full_content": "true"}, headers={"Accept": "application/json"})
        error = last_error(accepted(answer)["content"]) or self._failed_by_scheduler(dag_id, run_id, task)
        return error or f"its log names no error ({task.state})"

    def _failed_by_scheduler(self, dag_id: str, run_id: str, task: TaskState) -> str | None:
        """Return why the scheduler has failed a task whose process had said nothing of the kind."""
        of_task = {"dag_id": dag_id, "run_id": run_id, "task_id": task.task_id, "try_number": task.try_number}
        query = of_task | {"event": "state mismatch", "order_by": "-when"}
        events = accepted(self._ask("GET", "/api/v2/eventLogs", params=query))["event_logs"]
        return f"failed by the scheduler: {first_line(events[0]['extra'])}" if events else None

    def _ask(self, method: str, path: str, **arguments: Any) -> httpx.Response:
        """Ask until there is an answer, other than that the server failed, as it does while SQLite is locked for long.
        Only what may be asked twice."""
        deadline = time.monotonic() + self._patience_s
        while True:
            try:
                answer = self._client.request(method, path, **arguments)
            except httpx.TransportError as error:
                if time.monotonic() > deadline:
                    raise AirflowSilent(f"{method} {path}: no answer for {self._patience_s:.0f} s: {error}") from error
            else:
                if not answer.is_server_error or time.monotonic() > deadline:
                    return answer
            time.sleep(_ASK_AGAIN_AFTER_S)

    def _token(self) -> str:
        return str(accepted(self._ask("GET", "/auth/token"))["access_token"])


def accepted(answer: httpx.Response) -> Any:
    """Return the answer's document; raise `AirflowRefused` with the server's reason if there is none."""
    if answer.is_success:
        return answer.json()
    try:
        reason = answer.json()["detail"]
    except (ValueError, KeyError, TypeError):
        reason = answer.text[:500]
    request = answer.request
    raise AirflowRefused(f"{request.method} {request.url.path}: {answer.status_code}: {reason}")


def run_path(dag_id: str, run_id: str) -> str:
    return f"/api/v2/dags/{quote(dag_id)}/dagRuns/{quote(run_id, safe='')}"


def last_error(log: list[dict[str, Any]]) -> str | None:
    """Return the last exception of a task's structured log, or else its last error message; one line."""
    for entry in reversed(log):
        if details := entry.get("error_detail"):
            return first_line(f"{details[0]['exc_type']}: {details[0]['exc_value']}")
    messages = [entry["event"] for entry in log if entry.get("level") in ("error", "critical")]
    return first_line(messages[-1]) if messages else None


def first_line(text: str) -> str:
    return text.strip().partition("\n")[0]


def moment(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text.replace("Z", "+00:00")) if text else None
