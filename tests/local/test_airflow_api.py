"""A run is not lost sight of because the API server is busy, and a run is never started twice."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from lockstep.local.airflow_api import AirflowApi, AirflowRefused, AirflowSilent, TaskState


class Flaky(BaseHTTPRequestHandler):
    """Breaks the connection, or fails, as often as told before each answer, and counts what it was asked."""

    breaks = 0
    failures = 0
    asked: list[str]

    def do_GET(self) -> None:
        type(self).asked.append(f"{self.command} {self.path}")
        if self.path != "/auth/token" and type(self).breaks:
            type(self).breaks -= 1
            self.close_connection = True
            return
        status = 404 if "unknown" in self.path else 400 if "refused" in self.path else 200
        if self.path != "/auth/token" and type(self).failures:
            type(self).failures -= 1
            status = 500
        answer = {"access_token": "t", "state": "running", "dag_run_id": "r", "detail": "not like that"}
        of_task = {"content": [], "event_logs": [{"extra": "state mismatch: …"}] if "mismatched" in self.path else []}
        body = json.dumps(answer | of_task).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        self.do_GET()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def api() -> Iterator[AirflowApi]:
    Flaky.breaks, Flaky.failures, Flaky.asked = 0, 0, []
    server = HTTPServer(("127.0.0.1", 0), Flaky)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    with AirflowApi(f"http://127.0.0.1:{server.server_port}", patience_s=5) as api:
        yield api
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_question_is_asked_again_until_there_is_an_answer(api):
    Flaky.breaks = 2
    assert api.run_state("d", "r") == "running"


def test_a_question_is_asked_again_while_the_server_fails(api):
    """Airflow answers so when SQLite stays locked for longer than it waits."""
    Flaky.failures = 2
    assert api.run_state("d", "r") == "running"


def test_a_run_is_asked_for_once_only(api):
    """The first request may have started it: asking again might start a second."""
    Flaky.breaks = 1
    with pytest.raises(AirflowSilent, match="started a run of d is not known"):
        api.trigger("d", {}, None)
    assert Flaky.asked.count("POST /api/v2/dags/d/dagRuns") == 1


def test_silence_is_reported_after_a_while(api):
    Flaky.breaks = 1000
    api._patience_s = 0.0
    with pytest.raises(AirflowSilent, match="no answer for 0 s"):
        api.run_state("d", "r")


def test_airflow_s_own_reason_is_passed_on(api):
    with pytest.raises(AirflowRefused, match="400: not like that"):
        api.run_state("refused", "r")


@pytest.mark.parametrize(
    ("task_id", "error"),
    [
        pytest.param("mismatched", "failed by the scheduler: state mismatch: …", id="told in Airflow's audit log"),
        pytest.param("silent", "its log names no error (failed)", id="told nowhere"),
    ],
)
def test_why_a_task_has_failed_whose_log_does_not_say(api, task_id, error):
    task = TaskState(task_id=task_id, state="failed", try_number=1, seconds=None, started_at=None)
    assert api.error_of("d", "r", task) == error


def test_an_unknown_dag_and_a_task_that_returned_nothing_are_none(api):
    assert api.dag("unknown") is None
    assert api.returned("d", "unknown", "t") is None
