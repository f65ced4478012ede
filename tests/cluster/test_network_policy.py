"""A gang's own network policy: there before its pods, owned by its Service and gone with it, by a right of its own."""

from __future__ import annotations

import json

import pytest

from lockstep.errors import NotPermitted
from lockstep.kubernetes_access import POLICIES, Right, check_access
from lockstep.removal import Removal
from tests.cluster.administrator import Administrator
from tests.cluster.gangs import CONN_ID, MEET, Gangs
from tests.cluster.installation import OBJECTS, Installation, rendered

FOLDER = OBJECTS / "network-policy-per-gang"


def policies(installation: Installation) -> dict[str, str]:
    """The owner's UID of each gang's policy, by name; that of the installation has no owner."""
    found = json.loads(installation.kubectl("get", "networkpolicies", "--output=json"))["items"]
    owned = (each["metadata"] for each in found if "ownerReferences" in each["metadata"])
    return {metadata["name"]: metadata["ownerReferences"][0]["uid"] for metadata in owned}


async def test_it_is_there_while_the_gang_is_and_goes_with_its_service(
    real_gangs: Gangs, installation: Installation
) -> None:
    installation.add(FOLDER)
    plan = real_gangs.plan(network_policy=True)
    async with real_gangs.cluster.connected():
        running = await real_gangs.launch(plan)
        await real_gangs.started(plan)
        assert policies(installation) == {f"{plan.gang.name}-1": running.launch}
        await Removal(plan.gang, running.launch, 1).carry_out(real_gangs.cluster)
    installation.kubectl("wait", "--for=delete", f"networkpolicy/{plan.gang.name}-1", "--timeout=60s")


async def test_a_gang_meets_behind_it_and_the_next_launch_makes_its_own(
    real_gangs: Gangs, installation: Installation
) -> None:
    """The second launch has the first one's names, and comes before what that left is collected."""
    installation.add(FOLDER)
    plan = real_gangs.plan(MEET, network_policy=True)
    async with real_gangs.cluster.connected():
        for _ in range(2):
            running = await real_gangs.launch(plan)
            await real_gangs.supervise(running)
            assert policies(installation) == {f"{plan.gang.name}-1": running.launch}
            await Removal(plan.gang, running.launch, 1).carry_out(real_gangs.cluster)


async def test_without_the_right_the_gang_is_refused_and_nothing_is_left(
    real_gangs: Gangs, installation: Installation
) -> None:
    with pytest.raises(NotPermitted, match="refused to create NetworkPolicy"):
        await real_gangs.run(real_gangs.plan(network_policy=True))
    assert installation.kubectl("get", "pods,services", "--output=name") == ""


def test_preflight_asks_for_what_the_role_grants_and_names_it(admin: Administrator, installation: Installation) -> None:
    (role,) = (each for each in rendered(admin, FOLDER) if each["kind"] == "Role")
    (rule,) = role["rules"]
    assert {Right(verb, *rule["resources"], group=rule["apiGroups"][0]) for verb in rule["verbs"]} == set(POLICIES)
    with pytest.raises(NotPermitted, match=r"may not create networkpolicies.networking.k8s.io, get networkpolicies"):
        check_access(conn_id=CONN_ID, namespace=installation.namespace, network_policy=True)
    installation.add(FOLDER)
    check_access(conn_id=CONN_ID, namespace=installation.namespace, network_policy=True)
