"""A sweep does what it can: what fails for one gang is no reason to leave the others, and nothing goes on a guess."""

from __future__ import annotations

import pytest

from lockstep.errors import ClusterUnavailable
from lockstep.names import GangId
from lockstep.orphan import TaskStates
from lockstep.standing_gang import StandingGang
from lockstep.sweep import sweep
from tests.unit.builders import GANG
from tests.unit.memory_cluster import MemoryCluster

ORPHANS = [StandingGang(service=f"gang-{number}", launch=f"uid-{number}", gang=GANG) for number in range(3)]


async def over(gang: GangId) -> TaskStates:
    return {gang.run_id: {gang.task_id: "failed"}}


async def test_a_removal_that_fails_is_reported_after_all_the_others() -> None:
    cluster = MemoryCluster()
    cluster.fail_on["delete", 2] = ClusterUnavailable("no answer")
    with pytest.raises(ClusterUnavailable, match=r"^no answer$"):
        await sweep(ORPHANS, over, cluster, grace_s=1)
    assert cluster.requests["delete"] == len(ORPHANS)


async def test_an_airflow_that_does_not_answer_ends_the_sweep_and_no_gang_on_a_guess() -> None:
    """What was known to be over before that is removed all the same."""
    cluster, answers = MemoryCluster(), iter([True, False])

    async def ask(gang: GangId) -> TaskStates:
        if not next(answers):
            raise ConnectionError("Airflow is away")
        return await over(gang)

    with pytest.raises(ConnectionError, match="Airflow is away"):
        await sweep(ORPHANS, ask, cluster, grace_s=1)
    assert cluster.requests["delete"] == 1


async def test_airflow_is_not_asked_about_a_gang_that_says_nothing_of_its_task() -> None:
    async def ask(gang: GangId) -> TaskStates:
        raise AssertionError(gang)

    cluster = MemoryCluster()
    await sweep([StandingGang(service="somebody-s", launch="uid", gang=None)], ask, cluster, grace_s=1)
    assert cluster.requests["delete"] == 0
