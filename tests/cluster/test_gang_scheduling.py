"""Gangs that are scheduled whole: by Kueue's own controller, and by Kubernetes' own scheduler."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import pytest

from lockstep.errors import GangFailed, GangLost, GangTimedOut, InvalidSpec, NotPermitted
from lockstep.gang_scheduling import POD_GROUP_APIS
from lockstep.kubernetes_access import NEEDED, Right, check_access, needed
from lockstep.pod_plan import GangPlan, replan
from lockstep.pod_snapshot import PodSnapshot
from tests.cluster.administrator import Administrator
from tests.cluster.gangs import CONN_ID, Gangs
from tests.cluster.installation import OBJECTS, Installation, rendered
from tests.cluster.local_queue import WORKER_CPU, LocalQueue, local_queue
from tests.cluster.waiting import wait_until

UNTIL_TOLD = """
import os, time
while not os.path.exists("/tmp/exit"):
    time.sleep(0.05)
raise SystemExit(int(open("/tmp/exit").read()))
"""
WAIT_S = 60.0

End = Callable[[Gangs, Installation, GangPlan], Awaitable[None]]


@pytest.fixture
def queue(installation: Installation) -> Iterator[LocalQueue]:
    with local_queue(installation) as made:
        yield made


def queued(gangs: Gangs, queue: LocalQueue, code: str = UNTIL_TOLD, **given: Any) -> GangPlan:
    """A gang that needs almost all of the queue's quota."""
    scheduling = {"gang_scheduling": "kueue", "gang_queue": queue.name}
    asked = {"resources": {"cpu": WORKER_CPU, "memory": "64Mi"}}
    return gangs.plan(code, **asked | scheduling | given)


def all_queued(plan: GangPlan) -> Callable[[Sequence[PodSnapshot]], bool]:
    return lambda pods: len(pods) == len(plan.workers) and all(pod.queued for pod in pods)


async def supervised(gangs: Gangs, plan: GangPlan) -> asyncio.Task[Any]:
    """The gang, launched and watched as the triggerer does it."""
    return asyncio.create_task(gangs.see_through(await gangs.launch(plan)))


def tell_to_exit(installation: Installation, plan: GangPlan, status: int) -> None:
    for worker in plan.workers:
        say = f"echo {status} > /tmp/said && mv /tmp/said /tmp/exit"
        inside = (f"--namespace={installation.namespace}", worker.name, "--", "sh", "-c", say)
        installation.administrator.kubectl("exec", *inside)


async def succeeds(gangs: Gangs, installation: Installation, plan: GangPlan) -> None:
    tell_to_exit(installation, plan, 0)


async def fails(gangs: Gangs, installation: Installation, plan: GangPlan) -> None:
    tell_to_exit(installation, plan, 3)


async def is_killed(gangs: Gangs, installation: Installation, plan: GangPlan) -> None:
    """As when a person marks the task failed."""
    await gangs.cluster.delete(plan.gang, 1)


@pytest.mark.parametrize("ends", [succeeds, fails, is_killed])
async def test_a_second_gang_waits_until_the_first_ends_in_whatever_way(
    real_gangs: Gangs, installation: Installation, queue: LocalQueue, ends: End
) -> None:
    first, second = queued(real_gangs, queue), queued(real_gangs, queue)
    async with real_gangs.cluster.connected(), asyncio.timeout(180):
        ending = await supervised(real_gangs, first)
        assert not any(pod.queued for pod in await real_gangs.started(first))
        following = await supervised(real_gangs, second)
        await real_gangs.seen(second, all_queued(second))
        assert queue.admitted() == {f"{first.gang.name}-1"}
        await ends(real_gangs, installation, first)
        with suppress(GangFailed, GangLost):
            await ending
        await real_gangs.started(second)
        assert queue.admitted() == {f"{second.gang.name}-1"}
        tell_to_exit(installation, second, 0)
        assert len((await following).uids) == 2
    queue.wait_until_empty()


async def test_a_gang_of_higher_priority_takes_the_place_of_one_of_lower(
    real_gangs: Gangs, installation: Installation, queue: LocalQueue
) -> None:
    low = queued(real_gangs, queue)
    high = queued(real_gangs, queue, pod_options={"labels": {"kueue.x-k8s.io/priority-class": queue.high}})
    async with real_gangs.cluster.connected(), asyncio.timeout(180):
        preempted = await supervised(real_gangs, low)
        await real_gangs.started(low)
        preempting = await supervised(real_gangs, high)
        with pytest.raises(GangLost, match=r"worker [01] on .*: .*Preempted to accommodate a workload"):
            await preempted
        await real_gangs.gone(low)
        await real_gangs.started(high)
        tell_to_exit(installation, high, 0)
        await preempting
    queue.wait_until_empty()


async def test_a_gang_that_waits_for_too_long_gives_up_its_place(real_gangs: Gangs, queue: LocalQueue) -> None:
    plan = queued(real_gangs, queue, workers=3, timeouts={"queue_s": 5})
    with pytest.raises(GangTimedOut, match=r"the queue timeout of 5 s passed: .*worker 2 waits in the queue") as told:
        await real_gangs.run(plan)
    assert "insufficient quota for cpu" in str(told.value)  # as Kueue says of the group
    queue.wait_until_empty()


async def test_a_gang_that_is_started_anew_is_another_group(real_gangs: Gangs, queue: LocalQueue) -> None:
    """A group in which a pod has failed takes no further pods."""
    first = queued(real_gangs, queue, "import os; raise SystemExit(os.environ['LOCKSTEP_ATTEMPT'] == '1')")
    async with real_gangs.cluster.connected(), asyncio.timeout(180):
        with pytest.raises(GangFailed, match="exit code 1"):
            await real_gangs.supervise(await real_gangs.launch(first))
        again = replan(first, 2)
        assert len((await real_gangs.see_through(await real_gangs.launch(again))).uids) == 2
    queue.wait_until_empty()


async def test_a_gang_may_be_launched_again_at_once_under_the_same_name(real_gangs: Gangs, queue: LocalQueue) -> None:
    """As when a person clears the task; of the group before, nothing may hold the new pods."""
    plan = queued(real_gangs, queue, "print('done')")
    async with real_gangs.cluster.connected(), asyncio.timeout(180):
        for _ in range(2):
            running = await real_gangs.launch(plan)
            assert running.attempt == 1
            assert len((await real_gangs.see_through(running)).uids) == 2
            await real_gangs.gone(plan)
    queue.wait_until_empty()


def pod_groups(installation: Installation) -> list[dict[str, Any]]:
    listed = installation.administrator.get("podgroups.scheduling.k8s.io", f"--namespace={installation.namespace}")
    found: list[dict[str, Any]] = listed["items"]
    return found


def placed_whole(gangs: Gangs, admin: Administrator, code: str = UNTIL_TOLD, **given: Any) -> GangPlan:
    """Two workers that need more than half of the only node that is real; there is room for one more worker."""
    cpu = int(admin.get("node", "lockstep-node")["status"]["allocatable"]["cpu"]) * 1000
    asked = {"resources": {"cpu": f"{cpu * 3 // 10}m", "memory": "64Mi"}}
    return gangs.plan(code, **asked | {"gang_scheduling": "native"} | given)


@pytest.fixture
def native(installation: Installation) -> Installation:
    installation.add(OBJECTS / "native")
    return installation


@pytest.mark.alone  # it takes more than half of the node
async def test_kubernetes_places_a_gang_whole_or_not_at_all(
    real_gangs: Gangs, native: Installation, admin: Administrator
) -> None:
    first, second = placed_whole(real_gangs, admin), placed_whole(real_gangs, admin)
    async with real_gangs.cluster.connected(), asyncio.timeout(180):
        ending = await supervised(real_gangs, first)
        await real_gangs.started(first)
        following = await supervised(real_gangs, second)
        held = await real_gangs.seen(second, lambda pods: all_queued(second)(pods) and all(p.unscheduled for p in pods))
        assert not any(pod.node for pod in held)
        tell_to_exit(native, first, 0)
        await ending
        await real_gangs.started(second)
        tell_to_exit(native, second, 0)
        assert len((await following).uids) == 2
    wait_until(lambda: not pod_groups(native), what="the groups to be gone", timeout_s=WAIT_S)


@pytest.fixture
def high(admin: Administrator, installation: Installation) -> Iterator[str]:
    """A priority class above that of a gang that names none."""
    name = f"high-{installation.namespace}"
    metadata = {"name": name}
    admin.apply({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": metadata, "value": 1000})
    yield name
    admin.kubectl("delete", "priorityclass", name, "--wait=false")


@pytest.mark.alone  # it takes more than half of the node
async def test_kubernetes_preempts_a_gang_whole(
    real_gangs: Gangs, native: Installation, admin: Administrator, high: str
) -> None:
    low = placed_whole(real_gangs, admin)
    urgent = placed_whole(real_gangs, admin, pod_options={"priority_class_name": high})
    async with real_gangs.cluster.connected(), asyncio.timeout(180):
        preempted = await supervised(real_gangs, low)
        await real_gangs.started(low)
        preempting = await supervised(real_gangs, urgent)
        with pytest.raises(GangLost, match=r"worker [01] on .*PreemptionByScheduler: .*higher priority"):
            await preempted
        await real_gangs.started(urgent)
        tell_to_exit(native, urgent, 0)
        await preempting
    wait_until(lambda: not pod_groups(native), what="the groups to be gone", timeout_s=WAIT_S)


@pytest.mark.parametrize("scheduling", POD_GROUP_APIS)
def test_preflight_asks_for_exactly_what_the_roles_grant(admin: Administrator, scheduling: Any) -> None:
    (role,) = (each for each in rendered(admin, OBJECTS / scheduling) if each["kind"] == "Role")
    granted = {
        Right(verb, resource, group=group)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    assert granted == set(needed(scheduling)) - set(NEEDED)


def test_preflight_names_the_right_that_is_missing(installation: Installation) -> None:
    with pytest.raises(NotPermitted, match=r"may not create podgroups.scheduling.k8s.io, get podgroups"):
        check_access(conn_id=CONN_ID, namespace=installation.namespace, scheduling="native")
    installation.add(OBJECTS / "native")
    check_access(conn_id=CONN_ID, namespace=installation.namespace, scheduling="native")


async def test_without_the_right_to_create_the_group_no_pod_is_created(
    real_gangs: Gangs, installation: Installation
) -> None:
    plan = real_gangs.plan(gang_scheduling="native")
    with pytest.raises(NotPermitted, match="create PodGroup"):
        await real_gangs.run(plan)
    assert not installation.administrator.get("pods,services", f"--namespace={installation.namespace}")["items"]


async def test_without_reading_groups_an_interrupted_creation_cannot_be_taken_up(
    real_gangs: Gangs, native: Installation
) -> None:
    """A creation whose answer was lost is answered with 409 when it is tried again; then the group is looked at."""
    plan = real_gangs.plan(gang_scheduling="native")
    (group,) = plan.objects
    async with real_gangs.cluster.connected():
        owner = await real_gangs.cluster.create_service(plan)
        assert owner is not None
        for _ in range(2):
            await real_gangs.cluster.create_object(plan, group, owner)
        role = native.administrator.get("role", "lockstep-native", f"--namespace={native.namespace}")
        role["rules"][0]["verbs"] = ["create"]
        native.kubectl("replace", "--filename=-", objects=role)
        with pytest.raises(NotPermitted, match="read PodGroup"):
            await real_gangs.cluster.create_object(plan, group, owner)
        await real_gangs.cluster.delete(plan.gang, 1)


@pytest.mark.parametrize("scheduling", ["volcano", "coscheduling"])
async def test_a_scheduler_that_is_not_there_is_named_and_nothing_is_left(
    real_gangs: Gangs, installation: Installation, scheduling: Any
) -> None:
    installation.add(OBJECTS / scheduling)
    with pytest.raises(
        InvalidSpec, match=rf"(?i){re.escape(POD_GROUP_APIS[scheduling])} .*they come with .*{scheduling}"
    ):
        await real_gangs.run(real_gangs.plan(gang_scheduling=scheduling))
    assert not installation.administrator.get("pods,services", f"--namespace={installation.namespace}")["items"]
