"""Names survive whatever a DAG is called, and stay unique."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from lockstep.names import GangId, gang_labels, group_name, label_value, worker_name

DNS_LABEL = re.compile(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?")
LABEL_VALUE = re.compile(r"([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?")

ids = st.text(min_size=1, max_size=250)


@given(
    dag=ids, run=ids, task=ids, index=st.integers(-1, 9999), attempt=st.integers(1, 9999), rank=st.integers(0, 99999)
)
def test_every_name_is_valid(dag: str, run: str, task: str, index: int, attempt: int, rank: int) -> None:
    gang = GangId(dag_id=dag, run_id=run, task_id=task, map_index=index)
    assert DNS_LABEL.fullmatch(worker_name(gang, attempt, rank))
    assert DNS_LABEL.fullmatch(gang.name)
    assert DNS_LABEL.fullmatch(group_name(gang, attempt))
    assert all(LABEL_VALUE.fullmatch(value) for value in gang_labels(gang).values())


def test_gangs_that_differ_in_one_character_have_different_names() -> None:
    def name(run: str, index: int = -1) -> str:
        return GangId(dag_id="d" * 90, run_id=run, task_id="t", map_index=index).name

    assert len({name("manual__1+00:00"), name("manual__1-00:00"), name("manual__1+00:00", 0)}) == 3


def test_airflows_that_share_a_namespace_never_meet_in_a_name() -> None:
    """Though both run the same DAG under the same run id."""
    here, there = (GangId(dag_id="d", run_id="r", task_id="t", installation=name) for name in ("airflow", "other"))
    assert here.name != there.name
    assert gang_labels(here)["lockstep/installation"] == "airflow"


def test_a_valid_label_value_is_left_as_it_is() -> None:
    assert label_value("train_digits.v2") == "train_digits.v2"


def test_changed_label_values_stay_apart() -> None:
    assert label_value("a+b") != label_value("a:b")
