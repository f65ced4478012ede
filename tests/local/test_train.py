"""`train` against a real Airflow: a run is started, followed and summed up, and the schedule is as it was."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from lockstep.local.airflow_api import AirflowApi, AirflowRefused
from lockstep.local.run_start import NotStarted, known_dag
from lockstep.local.stack import Stack
from lockstep.local.train import RunFailed, train


def told(stack: Stack, dag_id: str, **params: object) -> str:
    """Everything that `train` says, as one text."""
    lines: list[str] = []
    train(stack, params, lines.append, dag_id)
    return "\n".join(lines)


def runs(stack: Stack, dag_id: str) -> dict[str, str]:
    with AirflowApi(stack.airflow_url) as api:
        found = api._client.get(f"/api/v2/dags/{dag_id}/dagRuns").json()["dag_runs"]
        return {run["run_id" if "run_id" in run else "dag_run_id"]: run["run_type"] for run in found}


def is_paused(stack: Stack, dag_id: str) -> bool:
    with AirflowApi(stack.airflow_url) as api:
        return known_dag(api, dag_id).paused


def test_the_first_run_is_the_scheduler_s_own_and_the_next_is_one_more(stack):
    """Unpausing starts today's run anyway; a second one beside it would only queue behind it."""
    said = told(stack, "story_daily")
    assert list(runs(stack, "story_daily").values()) == ["scheduled"]
    assert is_paused(stack, "story_daily")
    for expected in ("train           success", "held-out accuracy  0.9771", "digits version 1, alias champion"):
        assert expected in said

    told(stack, "story_daily")
    assert sorted(runs(stack, "story_daily").values()) == ["manual", "scheduled"]
    assert is_paused(stack, "story_daily")


def test_parameters_reach_the_run_and_it_takes_the_place_of_today_s(stack):
    said = told(stack, "story_asked", epochs=9)
    assert "9 epochs" in said
    with AirflowApi(stack.airflow_url) as api:
        api.set_paused("story_asked", False)
        told(stack, "story_asked")
        assert known_dag(api, "story_asked").next_run_after > datetime.now(UTC)
    assert list(runs(stack, "story_asked").values()) == ["manual", "manual"]


def test_a_failed_run_is_reported_by_the_first_failed_task_s_error_in_one_line(stack):
    said: list[str] = []
    with pytest.raises(RunFailed) as failure:
        train(stack, {"broken": True}, said.append, "story_broken")
    assert str(failure.value) == "task train failed: ValueError: worker 1 on node-b: exit code 1"
    assert any("train           failed: ValueError: worker 1" in line for line in said)
    assert is_paused(stack, "story_broken")


def test_a_parameter_of_the_wrong_type_is_refused_by_airflow_before_a_run_exists(stack):
    with pytest.raises(AirflowRefused, match="epochs"):
        told(stack, "story_broken", epochs={"not": "a number"})


def test_an_unknown_dag_is_said_to_be_unknown(stack, monkeypatch):
    monkeypatch.setattr("lockstep.local.run_start._DAG_TIMEOUT_S", 1.0)
    with pytest.raises(NotStarted, match="does not know the DAG nowhere"):
        told(stack, "nowhere")
