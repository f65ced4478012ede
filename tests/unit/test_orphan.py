"""Which gangs go on though their task is over, by what their Service says and what Airflow answers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.utils.state import TaskInstanceState

from lockstep.names import ANNOTATION_TASK_INSTANCE, GangId
from lockstep.orphan import OVER, Keep, Leave, Remove, TaskStates, judge
from lockstep.pod_plan import plan_gang
from lockstep.standing_gang import StandingGang, standing_gang
from lockstep.worker_pod import service_manifest
from tests.unit.builders import GANG, spec

MAPPED = GangId(dag_id="nightly", run_id="manual__1", task_id="train", map_index=3)
STRANGE = GangId(dag_id="nächtlich.€" * 20, run_id="scheduled__2026-12-01T00:00:00+00:00", task_id="a.b", map_index=0)


def standing(gang: GangId | None) -> StandingGang:
    return StandingGang(service="service", launch="uid", gang=gang)


def states(state: str | None, instance: str = "train", run_id: str = GANG.run_id) -> TaskStates:
    return {run_id: {instance: state}}


@pytest.mark.parametrize("state", ["success", "failed", "skipped", "upstream_failed", "removed"])
def test_a_gang_whose_task_is_over_is_removed(state: str) -> None:
    assert judge(standing(GANG), states(state)) == Remove(GANG, state)


@pytest.mark.parametrize(
    ("clean_up", "state", "keep_ended"),
    [
        pytest.param("delete", "failed", False, id="nothing is kept by default"),
        pytest.param("delete_succeeded", "success", False, id="nothing of a gang that has succeeded"),
        pytest.param("delete_succeeded", "failed", True, id="what a failed gang left"),
        pytest.param("keep", "success", True, id="all that has ended"),
    ],
)
def test_ended_pods_stay_where_their_author_asked_for_it(clean_up: str, state: str, keep_ended: bool) -> None:
    """What still runs goes all the same."""
    kept = StandingGang(service="service", launch="uid", gang=GANG, clean_up=clean_up)
    assert judge(kept, states(state)) == Remove(GANG, state, keep_ended=keep_ended)


@pytest.mark.parametrize("state", [None, *sorted({state.value for state in TaskInstanceState} - OVER), "state-of-2030"])
def test_a_gang_whose_task_goes_on_is_kept(state: str | None) -> None:
    """Running, deferred, about to be tried again, or anything that is not known to be an end."""
    assert judge(standing(GANG), states(state)) == Keep(GANG, state)


@pytest.mark.parametrize(
    ("gang", "answer", "removed"),
    [
        pytest.param(GANG, {}, False, id="a run that this Airflow does not know"),
        pytest.param(GANG, states("failed", run_id="manual__2"), False, id="another run of the DAG is over"),
        pytest.param(GANG, states("failed", "evaluate"), False, id="another task of the run is over"),
        pytest.param(GANG, states("failed", "train_3"), False, id="a mapped instance is over, the gang is of none"),
        pytest.param(MAPPED, states("failed", "train"), False, id="the gang is of a mapped instance, of none is told"),
        pytest.param(MAPPED, states("failed", "train_2"), False, id="the neighbour of a mapped instance is over"),
        pytest.param(MAPPED, states("failed", "train_3"), True, id="the mapped instance itself is over"),
        pytest.param(None, states("failed"), False, id="a Service that does not say whose it is"),
    ],
)
def test_only_the_task_instance_itself_counts(gang: GangId | None, answer: TaskStates, removed: bool) -> None:
    """What is not known is left alone: another Airflow, or a dag.test(), may own it."""
    assert isinstance(judge(standing(gang), answer), Remove if removed else Leave)


@pytest.mark.parametrize(
    "gang", [GANG, MAPPED, STRANGE, GangId(dag_id="d", run_id="r", task_id="t", installation="other")], ids=str
)
def test_the_service_says_whose_the_gang_is_whatever_the_dag_is_called(gang: GangId) -> None:
    manifest = service_manifest(plan_gang(spec(clean_up="keep"), gang, attempt=1))
    found = standing_gang(service(**manifest["metadata"]))
    assert found == StandingGang(service=gang.name, launch="uid", gang=gang, clean_up="keep")


@pytest.mark.parametrize(
    "annotations",
    [
        pytest.param(None, id="none"),
        pytest.param({ANNOTATION_TASK_INSTANCE: "nightly.train"}, id="no JSON"),
        pytest.param({ANNOTATION_TASK_INSTANCE: "[1]"}, id="no mapping"),
        pytest.param({ANNOTATION_TASK_INSTANCE: '{"dag_id": "nightly"}'}, id="no whole task instance"),
        pytest.param(
            {ANNOTATION_TASK_INSTANCE: json.dumps({"dag_id": "a", "run_id": "b", "task_id": "c"})}, id="another gang's"
        ),
    ],
)
def test_a_service_that_somebody_else_made_belongs_to_nobody(annotations: Mapping[str, str] | None) -> None:
    assert standing_gang(service(name=GANG.name, annotations=annotations)).gang is None


def service(**metadata: Any) -> Any:
    return SimpleNamespace(metadata=SimpleNamespace(**({"uid": "uid"} | metadata)))
