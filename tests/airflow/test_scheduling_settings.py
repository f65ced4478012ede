"""Where a task's gang is queued: by what the task says, or else by what the installation has chosen."""

from __future__ import annotations

from typing import Any

import pytest

from lockstep.errors import InvalidSpec
from lockstep.operators.train import DistributedTrainingOperator
from lockstep.pod_plan import GangPlan
from tests.airflow.task_context import task_context

TRAINING = {"job": "jobs.mine:Job", "train_data": "gs://bucket/train-*", "per_replica_batch_size": 32}
QUEUE = "kueue.x-k8s.io/queue-name"


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """An installation whose gangs wait in Kueue's queue `lockstep`."""
    settings = {
        "IMAGE": "trainer:1",
        "RUN_ROOT": "gs://bucket/runs",
        "GANG_SCHEDULING": "kueue",
        "GANG_QUEUE": "lockstep",
    }
    for name, value in settings.items():
        monkeypatch.setenv(f"AIRFLOW__LOCKSTEP__{name}", value)
    monkeypatch.delenv("AIRFLOW__LOCKSTEP__RENDEZVOUS", raising=False)
    return monkeypatch


def plan(**given: Any) -> GangPlan:
    return DistributedTrainingOperator(task_id="train", workers=2, training=TRAINING, **given).plan(task_context())


def queues(planned: GangPlan) -> set[str | None]:
    return {worker.labels.get(QUEUE) for worker in planned.workers}


def test_every_gang_of_an_installation_waits_in_its_queue(site: pytest.MonkeyPatch) -> None:
    assert queues(plan()) == {"lockstep"}


def test_a_task_names_another_queue(site: pytest.MonkeyPatch) -> None:
    assert queues(plan(gang_queue="urgent")) == {"urgent"}


@pytest.mark.parametrize("chosen", ["native", "none"])
def test_a_task_chooses_another_scheduler_or_none(site: pytest.MonkeyPatch, chosen: str) -> None:
    planned = plan(gang_scheduling=chosen)
    assert queues(planned) == {None}
    assert [thing.plural for thing in planned.objects] == (["podgroups"] if chosen == "native" else [])


def test_the_queue_of_airflow_s_workers_is_another_thing(site: pytest.MonkeyPatch) -> None:
    task = DistributedTrainingOperator(task_id="train", workers=2, training=TRAINING, queue="big-workers")
    assert task.queue == "big-workers"
    assert queues(task.plan(task_context())) == {"lockstep"}


def test_one_machine_has_nothing_to_queue_for(site: pytest.MonkeyPatch) -> None:
    site.setenv("AIRFLOW__LOCKSTEP__RENDEZVOUS", "loopback")
    with pytest.raises(InvalidSpec, match="rendezvous 'loopback'"):
        plan()


def test_a_mistyped_choice_of_the_installation_is_refused(site: pytest.MonkeyPatch) -> None:
    site.setenv("AIRFLOW__LOCKSTEP__GANG_SCHEDULING", "kueu")
    with pytest.raises(InvalidSpec, match=r"section \[lockstep\].gang_scheduling"):
        plan()
