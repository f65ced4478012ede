"""What the adapter makes of answers that a well API server never gives: a healthy gang must outlive them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest

from lockstep import kubernetes_cluster
from lockstep.cluster import AlreadyExists, LogLine
from lockstep.errors import ClusterUnavailable, InvalidSpec, NotPermitted, QuotaExceeded
from lockstep.gang_object import GangObject
from lockstep.kubernetes_cluster import KubernetesCluster
from lockstep.pod_event import PodGone, PodsListed
from lockstep.pod_plan import plan_gang
from tests.unit.builders import GANG, spec
from tests.unit.scripted_api import (
    Answer,
    ScriptedApi,
    changes,
    document,
    pod_list,
    pod_object,
    refusal,
    scripted_cluster,
)

PLAN = plan_gang(spec(), GANG, attempt=1)
POLICY = GangObject(
    plural="networkpolicies",
    manifest={"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "gang-1"}},
)
DELETED = {"type": "DELETED", "object": pod_object(1)}
TOO_BUSY = Answer(status=429, lines=("Too many requests, please try again later.",))
LOGGED = Answer(lines=("2026-12-01T12:00:00.5Z first\n", "2026-12-01T12:00:01Z second\n"))


@pytest.fixture
def api() -> ScriptedApi:
    return ScriptedApi()


@pytest.fixture
async def cluster(api: ScriptedApi, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[KubernetesCluster]:
    async with scripted_cluster(api, monkeypatch) as connected:
        yield connected


@pytest.mark.parametrize(
    ("answer", "lists"),
    [
        pytest.param(TOO_BUSY, 2, id="429 as text: the API server is busy"),
        pytest.param(Answer(status=502, lines=("<html>bad gateway</html>",)), 2, id="502 as a page: the load balancer"),
        pytest.param(Answer(status=503), 2, id="503 without a word"),
        pytest.param(refusal(410, "Expired"), 2, id="410: too much has happened since"),
        pytest.param(refusal(401, "Unauthorized"), 1, id="401: the token has expired"),
        pytest.param(Answer(lines=('{"type": "MODI',)), 1, id="a stream that ends within a line"),
        pytest.param(Answer(), 1, id="a stream that ends at once"),
    ],
)
async def test_a_watch_goes_on_after(answer: Answer, lists: int, api: ScriptedApi, cluster: KubernetesCluster) -> None:
    api.answers("list", pod_list(pod_object(0), pod_object(1)))
    api.answers("watch", answer, changes(DELETED))
    async with asyncio.timeout(30), aclosing(cluster.events(GANG)) as events:
        seen = [await anext(events) for _ in range(lists + 1)]
    assert [type(event) for event in seen] == [PodsListed] * lists + [PodGone]


async def test_a_watch_that_is_not_allowed_is_not_asked_for_again(api: ScriptedApi, cluster: KubernetesCluster) -> None:
    api.answers("list", pod_list())
    api.answers("watch", refusal(403, "Forbidden"))
    with pytest.raises(NotPermitted, match="refused to watch the gang's pods: because Forbidden"):
        async for _ in cluster.events(GANG):
            pass
    assert api.requests["watch"] == 1


async def test_a_watch_that_nobody_answers_any_more_comes_to_an_end(
    api: ScriptedApi, cluster: KubernetesCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cluster was deleted, or its address leads nowhere: nothing is ever refused."""
    monkeypatch.setattr(kubernetes_cluster, "WATCH_PATIENCE_S", 0.2)
    monkeypatch.setattr(kubernetes_cluster, "REWATCH_PAUSE_S", 0.05)
    api.answers("list", pod_list(pod_object(0)))
    api.answers("watch", Answer(lost=True))
    async with asyncio.timeout(30):
        with pytest.raises(ClusterUnavailable, match=r"could not be reached for 0.2 s to watch the gang's pods"):
            async for _ in cluster.events(GANG):
                pass
    assert api.requests["list"] == 1


async def test_the_last_lines_of_a_worker_may_be_in_any_encoding(api: ScriptedApi, cluster: KubernetesCluster) -> None:
    api.answers("log", Answer(lines=(b"loss 0.1\n", "caf\u00e9\n".encode("latin-1"))))
    assert await cluster.tail("w0", 20) == ("loss 0.1", "caf\ufffd")


async def test_a_full_quota_is_asked_again_for_a_moment_and_then_left_to_airflows_retries(
    api: ScriptedApi, cluster: KubernetesCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pods of the attempt before have gone, but still count for a moment."""
    full = refusal(403, "Forbidden", "exceeded quota: lockstep")
    api.answers("create", full, document(pod_object(), 201))
    assert (await cluster.create_pod(PLAN, PLAN.workers[0], "owner")).uid == "uid-0"
    monkeypatch.setattr(kubernetes_cluster, "QUOTA_COUNTED_S", 0.5)
    api.script["create"].clear()
    api.answers("create", full)
    with pytest.raises(QuotaExceeded, match="try again when other pods have ended"):
        await cluster.create_pod(PLAN, PLAN.workers[0], "owner")
    assert QuotaExceeded.retryable


async def lines(cluster: KubernetesCluster, since: LogLine | None = None) -> list[str]:
    return [line.text async for line in cluster.log("w0", since)]


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(refusal(401, "Unauthorized"), id="401: the token has expired"),
        pytest.param(TOO_BUSY, id="429 as text"),
        pytest.param(refusal(500, "InternalError"), id="500: the kubelet does not answer"),
    ],
)
async def test_a_refusal_is_not_taken_for_a_log(answer: Answer, api: ScriptedApi, cluster: KubernetesCluster) -> None:
    api.answers("log", answer, LOGGED)
    assert await lines(cluster) == ["first", "second"]


async def test_the_log_of_a_pod_that_is_gone_is_refused(api: ScriptedApi, cluster: KubernetesCluster) -> None:
    api.answers("log", refusal(404, "NotFound"))
    with pytest.raises(NotPermitted):
        await lines(cluster)


@pytest.mark.parametrize(
    "at",
    [
        pytest.param("2026-12-01T12:00:00.5Z", id="in UTC"),
        pytest.param("2026-12-01T14:00:00.5+02:00", id="in the node's own time zone"),
        pytest.param("2999-01-01T00:00:00.123456789Z", id="by a clock that is ahead"),
    ],
)
async def test_a_log_is_taken_up_again_from_a_time_that_the_api_takes(
    at: str, api: ScriptedApi, cluster: KubernetesCluster
) -> None:
    api.answers("log", LOGGED)
    await lines(cluster, LogLine(at, "last"))
    assert int(api.queries["log"]["sinceSeconds"]) >= 1


async def test_pods_that_conflict_on_a_quota_are_created_all_the_same(
    api: ScriptedApi, cluster: KubernetesCluster
) -> None:
    """Pods created at the same time race for their namespace's ResourceQuota; the API server answers 409 Conflict."""
    api.answers("create", refusal(409, "Conflict"), document(pod_object(), 201))
    assert (await cluster.create_pod(PLAN, PLAN.workers[0], "owner")).uid == "uid-0"
    assert api.requests["read"] == 0


@pytest.mark.parametrize(
    "found",
    [
        pytest.param(document(pod_object(owner="another")), id="a pod of another owner"),
        pytest.param(refusal(404, "NotFound"), id="a pod that has gone meanwhile"),
    ],
)
async def test_a_name_that_is_taken_is_told(found: Answer, api: ScriptedApi, cluster: KubernetesCluster) -> None:
    api.answers("create", refusal(409, "AlreadyExists"))
    api.answers("read", found)
    with pytest.raises(AlreadyExists):
        await cluster.create_pod(PLAN, PLAN.workers[0], "owner")


async def test_a_pod_whose_creation_was_answered_late_is_ours(api: ScriptedApi, cluster: KubernetesCluster) -> None:
    api.answers("create", refusal(409, "AlreadyExists"))
    api.answers("read", document(pod_object()))
    assert (await cluster.create_pod(PLAN, PLAN.workers[0], "owner")).uid == "uid-0"


async def test_credentials_that_expire_for_many_requests_at_once_are_renewed(
    api: ScriptedApi, cluster: KubernetesCluster
) -> None:
    """None of them may close the client that another has just made."""
    api.answers("list", *[refusal(401, "Unauthorized")] * 8, pod_list(pod_object()))
    answers = await asyncio.gather(*(cluster.pods(GANG) for _ in range(8)))
    assert [len(pods) for pods in answers] == [1] * 8
    assert api.requests["list"] == 16


async def test_a_conflict_that_does_not_end_may_be_tried_again(
    api: ScriptedApi, cluster: KubernetesCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lockstep.kubernetes_cluster.WATCH_PATIENCE_S", 0.0)
    api.answers("list", refusal(409, "Conflict"))
    with pytest.raises(ClusterUnavailable):
        await anext(cluster.events(GANG))


def owned_by(uid: str) -> Answer:
    return document({"kind": "NetworkPolicy", "metadata": {"name": "gang-1", "ownerReferences": [{"uid": uid}]}})


async def test_a_further_object_is_created_with_the_gang_s_service_as_its_owner(
    api: ScriptedApi, cluster: KubernetesCluster
) -> None:
    api.answers("create", document({}, 201))
    await cluster.create_object(PLAN, POLICY, "owner")
    (owner,) = api.bodies["create"]["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"]) == ("Service", PLAN.service, "owner")
    assert api.paths["create"] == "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies"


async def test_an_object_whose_creation_was_answered_late_is_ours(api: ScriptedApi, cluster: KubernetesCluster) -> None:
    api.answers("create", refusal(409, "AlreadyExists"))
    api.answers("read", owned_by("owner"))
    await cluster.create_object(PLAN, POLICY, "owner")
    assert api.requests["create"] == 1


async def test_an_object_that_a_former_launch_left_is_waited_for(api: ScriptedApi, cluster: KubernetesCluster) -> None:
    """It has lost its owner, and will be collected; the new gang must not rely on it."""
    api.answers("create", refusal(409, "AlreadyExists"), document({}, 201))
    api.answers("read", owned_by("another"))
    await cluster.create_object(PLAN, POLICY, "owner")
    assert api.requests["create"] == 2


async def test_an_object_of_somebody_else_is_told(
    api: ScriptedApi, cluster: KubernetesCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kubernetes_cluster, "LEFTOVER_S", 0)
    api.answers("create", refusal(409, "AlreadyExists"))
    api.answers("read", owned_by("another"))
    with pytest.raises(AlreadyExists, match="create NetworkPolicy gang-1"):
        await cluster.create_object(PLAN, POLICY, "owner")


NATIVE = plan_gang(spec(gang_scheduling="native"), GANG, attempt=1)
NOT_SERVED = Answer(status=404, lines=("404 page not found",))


async def test_a_pod_group_is_created_in_the_version_that_the_cluster_serves(
    api: ScriptedApi, cluster: KubernetesCluster
) -> None:
    api.answers("create", NOT_SERVED, document({}, 201))
    await cluster.create_object(NATIVE, NATIVE.objects[0], "owner")
    assert api.paths["create"] == "/apis/scheduling.k8s.io/v1alpha3/namespaces/default/podgroups"
    assert api.bodies["create"]["apiVersion"] == "scheduling.k8s.io/v1alpha3"


async def test_a_scheduler_that_the_cluster_does_not_have_is_named(
    api: ScriptedApi, cluster: KubernetesCluster
) -> None:
    api.answers("create", NOT_SERVED)
    with pytest.raises(
        InvalidSpec, match=r"podgroups of scheduling.k8s.io in version v1beta1 or v1alpha3; .* Kubernetes 1.37"
    ):
        await cluster.create_object(NATIVE, NATIVE.objects[0], "owner")


async def test_a_pod_that_kueue_leaves_alone_does_not_run_past_the_queue(
    api: ScriptedApi, cluster: KubernetesCluster
) -> None:
    queued = plan_gang(spec(gang_scheduling="kueue", gang_queue="lockstep"), GANG, attempt=1)
    api.answers("create", document(pod_object(), 201))
    with pytest.raises(InvalidSpec, match="Kueue leaves the pods of namespace 'default' alone"):
        await cluster.create_pod(queued, queued.workers[0], "owner")
