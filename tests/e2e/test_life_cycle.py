"""Airflow's life cycle, by its own scheduler, triggerer and API server: whatever a person or a crash does to a deferred
task, its gang has the right fate. Nothing is orphaned, nothing is started twice."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from lockstep.local import service_process
from lockstep.local.airflow_api import AirflowApi
from lockstep.local.airflow_service import airflow_services
from lockstep.local.keys import AirflowKeys
from lockstep.local.run_start import known_dag
from lockstep.local.stack import Stack
from lockstep.local.stack_state import StackState
from lockstep.names import GangId, service_name
from tests.e2e.airflow_stack import await_end, clear, go_on, kill, mark, pods_of, services_of
from tests.e2e.gang_processes import workers
from tests.e2e.waiting import awaited

DAG, HURRIED, MAPPED, STALLING = "patient_gang", "hurried_gang", "mapped_gangs", "stalling_gang"
WAIT_S = 120


class Run:
    """One run of `dag_id`, whose gangs end once they may."""

    def __init__(self, stack: Stack, api: AirflowApi, dag_id: str) -> None:
        known_dag(api, dag_id)
        self.stack, self.api, self.dag_id = stack, api, dag_id
        self.run_id = api.trigger(dag_id, {}, None)

    def gang(self, map_index: int = -1) -> GangId:
        return GangId(dag_id=self.dag_id, run_id=self.run_id, task_id="train", map_index=map_index)

    def states(self) -> list[str | None]:
        return [task.state for task in self.api.tasks(self.dag_id, self.run_id)]

    def await_watched(self, gangs: int = 1) -> set[str]:
        """The UIDs of the pods, once all run, their tasks are deferred, and the triggerer watches them."""
        awaited(lambda: self.states() == ["deferred"] * gangs, what="the deferral", timeout_s=WAIT_S)
        awaited(lambda: [*self.pods().values()] == ["Running"] * 2 * gangs, what="the pods", timeout_s=WAIT_S)
        awaited(lambda: self._triggers() == gangs, what="the triggerer's watch", timeout_s=WAIT_S)
        return set(self.pods())

    def pods(self) -> dict[str, str]:
        return pods_of(self.stack)

    def let_end(self) -> None:
        (self.stack.layout.airflow_home / f"{self.run_id} may end").touch()

    def await_success(self, gangs: int = 1) -> None:
        await_end(self.api, self.dag_id, self.run_id)
        assert self.states() == ["success"] * gangs, self._why()

    def await_nothing_left(self) -> None:
        def left() -> bool:
            return bool(self.pods() or services_of(self.stack) or workers(self.stack.layout.state))

        awaited(lambda: not left(), what="the end of pods, Service and processes", timeout_s=30)

    def _why(self) -> str:
        tasks = self.api.tasks(self.dag_id, self.run_id)
        return "; ".join(self.api.error_of(self.dag_id, self.run_id, task) for task in tasks if task.state == "failed")

    def _triggers(self) -> int:
        """How many triggers of the run's latest tries a triggerer has begun to run."""
        logs = self.stack.layout.airflow_home / "logs" / f"dag_id={self.dag_id}" / f"run_id={self.run_id}"
        latest = max(task.try_number for task in self.api.tasks(self.dag_id, self.run_id))
        return len(list(logs.rglob(f"attempt={latest}.log.trigger.*")))


@pytest.fixture(autouse=True)
def nothing_there(airflow_stack: Stack, api: AirflowApi) -> None:
    """Whatever ran before has left; and no sweep hides what is orphaned."""
    known_dag(api, "lockstep_sweep")
    api.set_paused("lockstep_sweep", True)
    assert (pods_of(airflow_stack), services_of(airflow_stack)) == ({}, [])


@pytest.fixture
def run(airflow_stack: Stack, api: AirflowApi) -> Iterator[Run]:
    run = Run(airflow_stack, api, DAG)
    yield run
    run.let_end()  # where the test has failed, too


@pytest.mark.parametrize("state", ["success", "failed"])
def test_a_person_who_marks_a_deferred_task_ends_its_gang(run: Run, api: AirflowApi, state: str) -> None:
    """apache/airflow#62398, #44014: the pod ran on."""
    run.await_watched()
    mark(api, DAG, run.run_id, "train", state)
    run.await_nothing_left()
    await_end(api, DAG, run.run_id)
    assert run.states() == [state]


def test_a_deferred_task_that_is_cleared_trains_anew_and_leaves_nothing_of_the_first_gang(
    run: Run, api: AirflowApi
) -> None:
    """The next try may take the gang over before the triggerer ends it; that costs a restart."""
    before = run.await_watched()
    clear(api, DAG, run.run_id, "train")
    awaited(lambda: len(run.pods()) == 2 and not before & set(run.pods()), what="another gang", timeout_s=WAIT_S)
    after = run.await_watched()
    assert not before & after
    run.let_end()
    run.await_success()
    run.await_nothing_left()


def test_a_paused_dag_s_gang_trains_to_its_end_and_its_task_succeeds_once_the_dag_goes_on(
    run: Run, api: AirflowApi
) -> None:
    before = run.await_watched()
    api.set_paused(DAG, True)
    run.let_end()
    awaited(lambda: set(run.pods().values()) == {"Succeeded"}, what="the end of both workers", timeout_s=WAIT_S)
    assert set(run.pods()) == before
    api.set_paused(DAG, False)
    run.await_success()
    run.await_nothing_left()


def test_an_execution_timeout_ends_a_deferred_gang(airflow_stack: Stack, api: AirflowApi) -> None:
    """apache/airflow#67227: it was not looked at while the task was deferred."""
    run = Run(airflow_stack, api, HURRIED)
    await_end(api, HURRIED, run.run_id)
    assert run.states() == ["failed"]
    (task,) = api.tasks(HURRIED, run.run_id)
    assert "execution_timeout" in api.error_of(HURRIED, run.run_id, task)
    run.await_nothing_left()


def test_a_scheduler_that_hears_late_of_the_deferral_costs_a_try_at_most(airflow_stack: Stack, api: AirflowApi) -> None:
    """apache/airflow#72716: it takes the deferral's end of the process for that of the resumed task, and fails it."""
    run = Run(airflow_stack, api, STALLING)
    run.let_end()
    try:
        awaited(lambda: run.states() == ["scheduled"], what="the trigger's event", timeout_s=WAIT_S)
    finally:
        go_on(airflow_stack, "scheduler")
    run.await_success()
    run.await_nothing_left()


def test_a_scheduler_that_is_killed_and_started_again_finds_the_task_deferred_and_its_gang_well(
    run: Run, airflow_stack: Stack
) -> None:
    before = run.await_watched()
    kill(airflow_stack, "scheduler")
    airflow_stack.up()
    assert run.states() == ["deferred"]
    assert set(run.pods()) == before
    run.let_end()
    run.await_success()
    run.await_nothing_left()


def test_gangs_of_a_mapped_task_train_side_by_side(airflow_stack: Stack, api: AirflowApi) -> None:
    run = Run(airflow_stack, api, MAPPED)
    before = run.await_watched(gangs=2)
    gangs = [run.gang(index) for index in range(2)]
    assert sorted(services_of(airflow_stack)) == sorted(service_name(gang) for gang in gangs)
    assert [len(pods_of(airflow_stack, gang)) for gang in gangs] == [2, 2]
    run.let_end()
    run.await_success(gangs=2)
    assert len(before) == 4
    run.await_nothing_left()


def test_another_triggerer_watches_on_when_the_first_is_killed(run: Run, airflow_stack: Stack) -> None:
    """Two of them: the same pods, one success. The first is started again, and disturbs nothing."""
    before = run.await_watched()
    with another_triggerer(airflow_stack):
        kill(airflow_stack, "triggerer")
        run.let_end()
        run.await_success()
        airflow_stack.up()
    run.await_nothing_left()
    assert len(before) == 2


def test_a_triggerer_that_is_killed_and_started_again_watches_on(run: Run, airflow_stack: Stack) -> None:
    """While nobody watches, the pods go on; the next triggerer finds the same ones."""
    before = run.await_watched()
    kill(airflow_stack, "triggerer")
    airflow_stack.up()
    assert set(run.pods()) == before
    run.let_end()
    run.await_success()
    run.await_nothing_left()


@contextmanager
def another_triggerer(stack: Stack) -> Iterator[None]:
    ports = StackState.read(stack.layout.state_file).ports
    services = airflow_services(stack.layout, ports, AirflowKeys.kept_in(stack.layout.keys_file))
    (service,) = (replace(each, name="another-triggerer") for each in services if each.name == "triggerer")
    process = service_process.start(service, stack.layout.log(service.name))
    try:
        yield
    finally:
        service_process.end([process])
