"""The manifests by which a gang is scheduled whole, against the field names that each scheduler publishes."""

from __future__ import annotations

from typing import Any

import pytest

from lockstep.deployment import Deployment, chosen_queue, chosen_scheduling
from lockstep.errors import InvalidSpec
from lockstep.pod_plan import GangPlan, plan_gang, replan
from lockstep.worker_pod import owned, pod_manifest
from tests.unit.builders import GANG, spec

GROUP = f"{GANG.name}-1"
UID = "0a1b2c3d-0000-4000-8000-000000000000"


def plan(scheduling: str | None, queue: str | None = None, **given: Any) -> GangPlan:
    return plan_gang(spec(workers=3, gang_scheduling=scheduling, gang_queue=queue, **given), GANG, attempt=1)


def pods(planned: GangPlan) -> list[dict[str, Any]]:
    return [pod_manifest(planned, worker, UID) for worker in planned.workers]


def added(planned: GangPlan) -> dict[str, Any]:
    """What the scheduling adds to each pod; checks that it is the same for all of them."""
    plain = pods(plan(None, pod_options=planned.spec.pod_options))
    (first, *others) = [_more(with_it, without) for with_it, without in zip(pods(planned), plain, strict=True)]
    assert all(other == first for other in others)
    return first


def _more(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    parts = {
        "labels": (one["metadata"]["labels"], other["metadata"]["labels"]),
        "annotations": (one["metadata"]["annotations"], other["metadata"]["annotations"]),
        "spec": (one["spec"], other["spec"]),
    }
    changed = {
        part: {key: value for key, value in now.items() if before.get(key) != value and key != "lockstep/spec"}
        for part, (now, before) in parts.items()
    }
    return {part: more for part, more in changed.items() if more}


@pytest.mark.parametrize(
    ("planned", "expected"),
    [
        pytest.param(plan(None), {}, id="no scheduling asked for: nothing"),
        pytest.param(
            plan("kueue", "lockstep"),
            {
                "labels": {"kueue.x-k8s.io/queue-name": "lockstep", "kueue.x-k8s.io/pod-group-name": GROUP},
                "annotations": {
                    "kueue.x-k8s.io/pod-group-total-count": "3",
                    "kueue.x-k8s.io/retriable-in-group": "false",
                },
            },
            id="Kueue 0.17: a group of plain pods",
        ),
        pytest.param(
            plan("volcano"),
            {
                "labels": {"lockstep/gang-scheduler": "volcano"},
                "annotations": {"scheduling.k8s.io/group-name": GROUP},
                "spec": {"schedulerName": "volcano"},
            },
            id="Volcano 1.14",
        ),
        pytest.param(
            plan("coscheduling"),
            {
                "labels": {"lockstep/gang-scheduler": "coscheduling", "scheduling.x-k8s.io/pod-group": GROUP},
                "spec": {"schedulerName": "scheduler-plugins-scheduler"},
            },
            id="scheduler-plugins 0.34",
        ),
        pytest.param(
            plan("native"),
            {
                "labels": {"lockstep/gang-scheduler": "native"},
                "spec": {"schedulingGroup": {"podGroupName": GROUP}},
            },
            id="Kubernetes 1.37",
        ),
    ],
)
def test_every_pod_of_the_gang_says_to_which_group_it_belongs(planned: GangPlan, expected: dict[str, Any]) -> None:
    assert added(planned) == expected


@pytest.mark.parametrize(
    ("planned", "api", "wanted"),
    [
        pytest.param(plan("volcano"), "scheduling.volcano.sh/v1beta1", {"minMember": 3}, id="Volcano's default queue"),
        pytest.param(
            plan("volcano", "research", pod_options={"priority_class_name": "high"}),
            "scheduling.volcano.sh/v1beta1",
            {"minMember": 3, "queue": "research", "priorityClassName": "high"},
            id="a queue of Volcano's, and the pods' priority",
        ),
        pytest.param(plan("coscheduling"), "scheduling.x-k8s.io/v1alpha1", {"minMember": 3}, id="coscheduling"),
        pytest.param(
            plan("native", pod_options={"priority_class_name": "high"}),
            "scheduling.k8s.io/v1beta1",
            {
                "schedulingPolicy": {"gang": {"minCount": 3}},
                "disruptionMode": {"all": {}},
                "priorityClassName": "high",
            },
            id="Kubernetes' own, disrupted as one, with the pods' priority",
        ),
    ],
)
def test_the_group_waits_for_all_workers_and_goes_with_the_service(
    planned: GangPlan, api: str, wanted: dict[str, Any]
) -> None:
    (group,) = planned.objects
    manifest = owned(group.manifest, planned, UID)
    assert (group.plural, manifest["kind"], manifest["apiVersion"]) == ("podgroups", "PodGroup", api)
    assert manifest["metadata"]["name"] == GROUP
    assert manifest["metadata"]["namespace"] == "default"
    assert [owner["uid"] for owner in manifest["metadata"]["ownerReferences"]] == [UID]
    assert manifest["spec"] == wanted


@pytest.mark.parametrize("scheduling", [None, "kueue"])
def test_kueue_makes_its_groups_itself(scheduling: str | None) -> None:
    assert plan(scheduling, "lockstep" if scheduling else None).objects == ()


@pytest.mark.parametrize(
    ("scheduling", "key"),
    [
        pytest.param("kueue", ("metadata", "labels", "kueue.x-k8s.io/pod-group-name"), id="kueue"),
        pytest.param("volcano", ("metadata", "annotations", "scheduling.k8s.io/group-name"), id="volcano"),
        pytest.param("coscheduling", ("metadata", "labels", "scheduling.x-k8s.io/pod-group"), id="coscheduling"),
        pytest.param("native", ("spec", "schedulingGroup", "podGroupName"), id="native"),
    ],
)
def test_another_attempt_is_another_group(scheduling: str, key: tuple[str, str, str]) -> None:
    again = replan(plan(scheduling, "lockstep" if scheduling == "kueue" else None), attempt=2)
    part, field, name = key
    assert {pod[part][field][name] for pod in pods(again)} == {f"{GANG.name}-2"}
    assert {group.name for group in again.objects} <= {f"{GANG.name}-2"}


@pytest.mark.parametrize("scheduling", ["volcano", "coscheduling"])
def test_a_scheduler_under_another_name_is_named_in_pod_options(scheduling: str) -> None:
    planned = plan(scheduling, pod_options={"schedulername": "ours"})
    assert {pod["spec"]["schedulerName"] for pod in pods(planned)} == {"ours"}


def test_labels_of_ones_own_go_along() -> None:
    """As with Kueue's priority class for workloads."""
    planned = plan("kueue", "lockstep", pod_options={"labels": {"kueue.x-k8s.io/priority-class": "high"}})
    assert {pod["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] for pod in pods(planned)} == {"high"}


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        pytest.param({"gang_scheduling": "kueue"}, "needs the name of a LocalQueue", id="Kueue without a queue"),
        pytest.param(
            {"gang_scheduling": "native", "gang_queue": "q"}, "'native' has no queues", id="a queue where there is none"
        ),
        pytest.param({"gang_queue": "q"}, "no gang_scheduling is given", id="a queue of nobody's"),
        pytest.param(
            {"gang_scheduling": "kueue", "gang_queue": "q", "rendezvous": "loopback"},
            "gives each its own port",
            id="workers that differ by their ports",
        ),
        pytest.param({"gang_scheduling": "slurm"}, "gang_scheduling: input should be", id="an unknown scheduler"),
        pytest.param(
            {"gang_scheduling": "kueue", "gang_queue": "A queue"}, "gang_queue: string should", id="not a queue's name"
        ),
    ],
)
def test_what_cannot_be_queued_is_refused(asked: dict[str, str], told: str) -> None:
    with pytest.raises(InvalidSpec, match=told):
        spec(**asked)


QUEUED_SITE = Deployment(gang_scheduling="kueue", gang_queue="lockstep")


@pytest.mark.parametrize(
    ("site", "scheduling", "queue", "expected"),
    [
        pytest.param(Deployment(), None, None, (None, None), id="nobody says anything"),
        pytest.param(QUEUED_SITE, None, None, ("kueue", "lockstep"), id="the deployment's"),
        pytest.param(QUEUED_SITE, None, "urgent", ("kueue", "urgent"), id="another queue"),
        pytest.param(QUEUED_SITE, "native", None, ("native", None), id="another scheduler has no use for the queue"),
        pytest.param(QUEUED_SITE, "none", None, (None, None), id="none at all"),
    ],
)
def test_a_task_overrides_the_deployment(
    site: Deployment, scheduling: str | None, queue: str | None, expected: tuple[str | None, str | None]
) -> None:
    chosen = chosen_scheduling(site, scheduling)
    assert (chosen, chosen_queue(site, chosen, queue)) == expected


def test_a_scheduler_that_nobody_knows_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(InvalidSpec, match="'slurm' is not one of kueue, volcano, coscheduling, native, none"):
        chosen_scheduling(QUEUED_SITE, "slurm")
