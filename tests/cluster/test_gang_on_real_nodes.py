"""What only a real scheduler, kubelet and kernel do to a gang, and what Lockstep makes of it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from lockstep.errors import GangFailed, GangLost, GangTimedOut, InvalidSpec, NotPermitted, QuotaExceeded
from lockstep.pod_plan import replan
from tests.cluster.cluster import look
from tests.cluster.empty_registry import empty_registry
from tests.cluster.gangs import MEET, Gangs
from tests.cluster.installation import Installation

ALLOCATE = "import os; taken = [bytearray(os.urandom(1 << 20)) for _ in range(512)]; print(len(taken))"
TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount/token"


async def test_workers_find_each_other_by_the_service_names(real_gangs: Gangs) -> None:
    """Both meet under the addresses of their TF_CONFIG, resolved by the cluster's own DNS."""
    plan = real_gangs.plan(MEET)
    assert all(worker.address.endswith(f".{real_gangs.namespace}.svc:2222") for worker in plan.workers)
    finish = await real_gangs.run(plan)
    assert len(finish.uids) == 2


async def test_a_training_pod_has_no_token_and_is_not_root(real_gangs: Gangs) -> None:
    check = f"import os; assert not os.path.exists({TOKEN!r}); assert os.getuid() != 0"
    await real_gangs.run(real_gangs.plan(check))


async def test_pods_as_planned_are_admitted_under_pod_security_restricted(real_gangs: Gangs) -> None:
    """Nobody has to know what the namespace of docker/kubernetes/ enforces."""
    plan = real_gangs.plan("print('admitted')")
    untold = replan(replace(plan, spec=replace(plan.spec, pod_options={})), attempt=1)
    await real_gangs.run(untold)


async def test_a_gang_too_large_for_every_node_times_out_and_says_why(real_gangs: Gangs) -> None:
    plan = real_gangs.plan(resources={"cpu": "100", "memory": "64Mi"}, timeouts={"startup_s": 5})
    with pytest.raises(GangTimedOut, match=r"worker 0 cannot be scheduled: .*Insufficient cpu"):
        await real_gangs.run(plan)


@pytest.mark.skipif(look().layout is None, reason="the registry is where only a node brought up here reaches it")
async def test_an_image_that_its_registry_does_not_have_fails_at_once(real_gangs: Gangs) -> None:
    with empty_registry() as registry, pytest.raises(GangFailed, match=r"its image cannot be pulled: .*not found"):
        await real_gangs.run(real_gangs.plan(image=f"{registry}/nobody/nothing:1"))


async def test_a_registry_that_is_away_is_not_the_users_fault(real_gangs: Gangs) -> None:
    with pytest.raises(GangLost, match=r"its image cannot be pulled: \w+.*localhost:1/nobody/nothing:1"):
        await real_gangs.run(real_gangs.plan(image="localhost:1/nobody/nothing:1"))


async def test_a_worker_killed_by_the_kernel_is_told_its_limit(real_gangs: Gangs) -> None:
    with pytest.raises(GangFailed, match=r"worker [01] on \S+ .*: OOMKilled, limit 64Mi"):
        await real_gangs.run(real_gangs.plan(ALLOCATE))


async def test_the_last_words_of_a_worker_are_in_the_error(real_gangs: Gangs) -> None:
    """Read from the termination message, which the kubelet takes from the log where the container wrote none."""
    with pytest.raises(GangFailed, match=r"exit code 3: .*the data is upside down"):
        await real_gangs.run(real_gangs.plan("raise SystemExit(print('the data is upside down') or 3)"))


async def test_an_eviction_is_not_the_users_fault(real_gangs: Gangs, installation: Installation) -> None:
    plan = real_gangs.plan()
    async with real_gangs.cluster.connected():
        supervised = asyncio.create_task(real_gangs.supervise(await real_gangs.launch(plan)))
        await real_gangs.started(plan)
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": plan.workers[1].name}}
        path = f"/api/v1/namespaces/{real_gangs.namespace}/pods/{plan.workers[1].name}/eviction"
        installation.administrator.kubectl("create", f"--raw={path}", "--filename=-", objects=eviction)
        with pytest.raises(
            GangLost, match=r"^worker 1 on \S+ .*: EvictionByEvictionAPI.*; the other worker was ended with it$"
        ):
            await supervised
        assert not await real_gangs.cluster.pods(plan.gang)


@pytest.mark.alone
async def test_draining_a_node_ends_the_gang_and_cordoning_keeps_the_next_one_waiting(
    real_gangs: Gangs, installation: Installation
) -> None:
    admin, plan = installation.administrator, real_gangs.plan()
    async with real_gangs.cluster.connected():
        supervised = asyncio.create_task(real_gangs.supervise(await real_gangs.launch(plan)))
        nodes = {pod.node for pod in await real_gangs.started(plan)}
        try:
            for node in nodes:
                selector = f"--pod-selector=lockstep/gang={plan.gang.name}"
                admin.kubectl("drain", node, selector, "--force", "--timeout=60s", "--grace-period=1")
            with pytest.raises(GangLost):
                await supervised
            again = real_gangs.plan(timeouts={"startup_s": 5})
            with pytest.raises(GangTimedOut, match=r"cannot be scheduled: .*(unschedulable|didn't match)"):
                await real_gangs.supervise(await real_gangs.launch(again))
        finally:
            for node in nodes:
                admin.kubectl("uncordon", node)


async def test_a_gang_over_the_quota_is_refused_and_leaves_nothing(
    real_gangs: Gangs, installation: Installation
) -> None:
    installation.kubectl("patch", "resourcequota", "lockstep", '--patch={"spec": {"hard": {"pods": "2"}}}')
    plan = real_gangs.plan(workers=4)
    async with real_gangs.cluster.connected():
        with pytest.raises(QuotaExceeded, match="exceeded quota: lockstep"):
            await real_gangs.launch(plan)
        await real_gangs.gone(plan)


async def test_the_namespace_refuses_a_privileged_worker(real_gangs: Gangs) -> None:
    """Pod security `restricted` is enforced, and the reason reaches whoever asked for more."""
    plan = real_gangs.plan(pod_options={"container_security_context": {"privileged": True}})
    with pytest.raises(NotPermitted, match=r"violates PodSecurity \"restricted:latest\": privileged"):
        await real_gangs.run(plan)


async def test_what_an_admission_policy_refuses_is_told_in_its_own_words(
    real_gangs: Gangs, installation: Installation
) -> None:
    name = f"no-forbidden-{real_gangs.namespace}"
    installation.administrator.apply(*_refusing_the_label_forbidden(name, real_gangs.namespace))
    plan = real_gangs.plan(pod_options={"labels": {"forbidden": "yes"}})
    try:
        async with real_gangs.cluster.connected(), asyncio.timeout(60):
            # A policy takes effect a moment after it was created; until then gangs are admitted.
            while (refusal := await _refusal(real_gangs, plan)) is None:
                await real_gangs.cluster.delete(plan.gang, 1)
                await real_gangs.gone(plan)
            await real_gangs.gone(plan)
    finally:
        for kind in ("validatingadmissionpolicybinding", "validatingadmissionpolicy"):
            installation.administrator.kubectl("delete", kind, name)
    assert "labels named forbidden are not for this cluster" in str(refusal)


async def test_a_finalizer_holds_the_end_of_a_gang_until_it_is_taken_away(
    real_gangs: Gangs, installation: Installation
) -> None:
    """The gang counts as removed only once its pods are really gone."""
    plan = real_gangs.plan()
    held = f"pod/{plan.workers[0].name}"
    async with real_gangs.cluster.connected():
        running = await real_gangs.launch(plan)
        await real_gangs.started(plan)
        installation.kubectl("patch", held, '--patch={"metadata": {"finalizers": ["example.com/hold"]}}')
        supervised = asyncio.create_task(real_gangs.supervise(running))
        installation.kubectl("delete", f"pod/{plan.workers[1].name}", "--now", "--wait=false")
        await real_gangs.seen(plan, lambda pods: [(pod.rank, bool(pod.deletion_due)) for pod in pods] == [(0, True)])
        assert not supervised.done()
        installation.kubectl("patch", held, "--type=merge", '--patch={"metadata": {"finalizers": null}}')
        with pytest.raises(GangLost, match=r"^worker 1 "):
            await supervised


async def test_the_chiefs_log_is_followed_to_its_end(real_gangs: Gangs, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    await real_gangs.run(real_gangs.plan("for step in range(200): print(f'step {step}')"))
    steps = [record.getMessage() for record in caplog.records if "[chief] step" in record.getMessage()]
    assert len(steps) == 200


async def _refusal(real_gangs: Gangs, plan: Any) -> Exception | None:
    try:
        await real_gangs.launch(plan)
    except (InvalidSpec, NotPermitted) as refusal:
        return refusal
    return None


def _refusing_the_label_forbidden(name: str, namespace: str) -> list[dict[str, Any]]:
    api = "admissionregistration.k8s.io/v1"
    pods = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    here = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
    return [
        {
            "apiVersion": api,
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": name},
            "spec": {
                "failurePolicy": "Fail",
                "matchConstraints": {"resourceRules": [pods]},
                "validations": [
                    {
                        "expression": "!('forbidden' in object.metadata.labels)",
                        "message": "labels named forbidden are not for this cluster",
                    }
                ],
            },
        },
        {
            "apiVersion": api,
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": name},
            "spec": {
                "policyName": name,
                "validationActions": ["Deny"],
                "matchResources": {"namespaceSelector": here},
            },
        },
    ]
