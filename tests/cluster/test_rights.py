"""The rights of `docker/kubernetes/` are enough, and none is idle: without any one of them a named thing fails."""

from __future__ import annotations

import pytest

from lockstep.errors import GangTimedOut, NotPermitted
from lockstep.kubernetes_access import NEEDED, Right, check_access
from tests.cluster.administrator import Administrator
from tests.cluster.gangs import CONN_ID, Gangs
from tests.cluster.installation import OBJECTS, SUPERVISOR, Installation, rendered

FAILS = {
    Right("create", "services"): "create the gang's Service",
    Right("list", "services"): "list the gangs' Services",
    Right("delete", "services"): "delete Service",
    Right("create", "pods"): "create pod",
    Right("get", "pods"): "read pod",
    Right("list", "pods"): "list the gang's pods",
    Right("watch", "pods"): "watch the gang's pods",
    Right("deletecollection", "pods"): "delete the pods",
    Right("get", "pods", "log"): "read the log",
    Right("list", "events"): "say why a gang does not start",
}


def test_preflight_asks_for_exactly_what_the_role_grants(admin: Administrator) -> None:
    (role,) = (each for each in rendered(admin, OBJECTS) if each["kind"] == "Role")
    granted = {
        Right(verb, *resource.split("/"))
        for rule in role["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    assert granted == set(NEEDED)
    assert granted == set(FAILS)


def test_the_role_is_enough_for_preflight(installation: Installation) -> None:
    check_access(conn_id=CONN_ID, namespace=installation.namespace)


@pytest.mark.parametrize("right", FAILS, ids=str)
def test_preflight_names_the_right_that_is_missing(installation: Installation, right: Right) -> None:
    take_away(installation, right)
    with pytest.raises(NotPermitted, match=f"may not {right} in namespace"):
        check_access(conn_id=CONN_ID, namespace=installation.namespace)


OF_ITS_OWN = {
    Right("get", "pods"),
    Right("get", "pods", "log"),
    Right("watch", "pods"),
    Right("list", "services"),
    Right("list", "events"),
}


@pytest.mark.parametrize("right", [right for right in FAILS if right not in OF_ITS_OWN], ids=str)
async def test_without_it_a_gang_cannot_be_run(real_gangs: Gangs, installation: Installation, right: Right) -> None:
    take_away(installation, right)
    with pytest.raises(NotPermitted) as refused:
        await real_gangs.run(real_gangs.plan("print('done')"))
    notes = getattr(refused.value, "__notes__", [])
    assert any(FAILS[right] in text for text in (str(refused.value), *notes))


async def test_without_reading_logs_the_chiefs_is_not_shown_and_the_gang_still_succeeds(
    real_gangs: Gangs, installation: Installation, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    take_away(installation, Right("get", "pods", "log"))
    await real_gangs.run(real_gangs.plan("print('step 1')"))
    assert "step 1" not in caplog.text


async def test_without_listing_events_a_gang_that_does_not_start_is_told_without_the_clusters_warnings(
    real_gangs: Gangs, installation: Installation
) -> None:
    too_large = {"workers": 1, "resources": {"cpu": "100"}, "timeouts": {"startup_s": 5}}
    with pytest.raises(GangTimedOut, match=r"; the cluster warns of \S+-w0: FailedScheduling: .*Insufficient cpu"):
        await real_gangs.run(real_gangs.plan(**too_large))
    take_away(installation, Right("list", "events"))
    with pytest.raises(GangTimedOut, match="worker 0 cannot be scheduled") as told:
        await real_gangs.run(real_gangs.plan(**too_large))
    assert "the cluster warns" not in str(told.value)


async def test_without_reading_pods_an_interrupted_creation_cannot_be_taken_up(
    real_gangs: Gangs, installation: Installation
) -> None:
    """A creation whose answer was lost is answered with 409 when it is tried again; then the pod is looked at."""
    plan = real_gangs.plan()
    async with real_gangs.cluster.connected():
        owner = await real_gangs.cluster.create_service(plan)
        assert owner is not None
        first = await real_gangs.cluster.create_pod(plan, plan.workers[0], owner)
        assert (await real_gangs.cluster.create_pod(plan, plan.workers[0], owner)).uid == first.uid
        take_away(installation, Right("get", "pods"))
        with pytest.raises(NotPermitted, match="read pod"):
            await real_gangs.cluster.create_pod(plan, plan.workers[0], owner)
        await real_gangs.cluster.delete(plan.gang, 1)


async def test_a_gang_that_may_not_be_watched_is_not_polled_instead(
    real_gangs: Gangs, installation: Installation
) -> None:
    take_away(installation, Right("watch", "pods"))
    with pytest.raises(NotPermitted, match="watch"):
        await real_gangs.run(real_gangs.plan("print('done')"))


async def test_without_listing_services_no_orphan_is_found(real_gangs: Gangs, installation: Installation) -> None:
    take_away(installation, Right("list", "services"))
    async with real_gangs.cluster.connected():
        with pytest.raises(NotPermitted, match="list the gangs' Services"):
            await real_gangs.cluster.standing("airflow")


def test_the_supervisor_may_do_nothing_else(installation: Installation) -> None:
    """No secrets, no other namespace, no exec into a pod, no change of its own rights."""
    subject = f"--as=system:serviceaccount:{installation.airflow_namespace}:{SUPERVISOR}"
    for denied in ("get secrets", "create pods/exec", "patch pods", "create rolebindings", "get configmaps"):
        assert may(installation, *denied.split(), subject) == "no"
    assert may(installation, "create", "pods", subject, "--namespace=default") == "no"


def may(installation: Installation, verb: str, resource: str, *options: str) -> str:
    namespace = () if any("--namespace" in option for option in options) else (f"--namespace={installation.namespace}",)
    resource, _, subresource = resource.partition("/")
    part = (f"--subresource={subresource}",) if subresource else ()
    program = installation.administrator
    # `auth can-i` says no with exit code 1 as well as in words; the words are enough.
    return program.kubectl("auth", "can-i", verb, resource, *part, *options, *namespace, check=False).strip()


def take_away(installation: Installation, right: Right) -> None:
    """The Role without one verb of one resource."""
    role = installation.administrator.get("role", "lockstep-gang", f"--namespace={installation.namespace}")
    resource = f"{right.resource}/{right.subresource}" if right.subresource else right.resource
    for rule in role["rules"]:
        if resource in rule["resources"]:
            rule["verbs"] = [verb for verb in rule["verbs"] if verb != right.verb]
    role["rules"] = [rule for rule in role["rules"] if rule["verbs"]]
    installation.kubectl("replace", "--filename=-", objects=role)
