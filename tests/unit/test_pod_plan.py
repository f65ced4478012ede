"""A gang as values: what is asked of Kubernetes, and what two launches have in common."""

from __future__ import annotations

import pytest
from airflow.providers.cncf.kubernetes.secret import Secret
from kubernetes.client import V1EnvFromSource, V1SecretEnvSource, V1Toleration

from lockstep.errors import InvalidSpec
from lockstep.pod_plan import plan_gang, spec_digest
from lockstep.worker_pod import CONTAINER, checked_pod_options, pod_manifest
from tests.unit.builders import GANG, spec


def tolerating(key: str) -> dict[str, object]:
    return {"tolerations": [V1Toleration(key=key, operator="Exists")]}


@pytest.mark.parametrize(
    ("options", "field", "expected"),
    [
        pytest.param(
            tolerating("gpu"), ("tolerations",), [{"key": "gpu", "operator": "Exists"}], id="objects of the client"
        ),
        pytest.param(
            {"env_from": [V1EnvFromSource(secret_ref=V1SecretEnvSource(name="training"))]},
            ("containers", 0, "envFrom"),
            [{"secretRef": {"name": "training"}}],
            id="objects within objects",
        ),
        pytest.param(
            {"secrets": [Secret("env", None, "training")]},
            ("containers", 0, "envFrom"),
            [{"secretRef": {"name": "training"}}],
            id="objects of the provider",
        ),
    ],
)
def test_pod_options_may_hold_what_kubernetes_pod_operator_takes(
    options: dict[str, object], field: tuple[str | int, ...], expected: object
) -> None:
    plan = plan_gang(spec(pod_options=options), GANG, attempt=1)
    found = pod_manifest(plan, plan.workers[0], "uid")["spec"]
    for part in field:
        found = found[part]
    assert found == expected


def test_a_launch_is_known_again_by_what_its_pod_options_say() -> None:
    assert spec_digest(spec(pod_options=tolerating("a"))) == spec_digest(spec(pod_options=tolerating("a")))
    assert spec_digest(spec(pod_options=tolerating("a"))) != spec_digest(spec(pod_options=tolerating("b")))


def test_a_pod_says_its_role_and_keeps_its_name() -> None:
    """Names count ranks whatever the roles are; labels tell who it is."""
    own = {"command": ["python", "own.py"]}
    roles = {"chief": own, "worker": own | {"replicas": 2}, "ps": own, "evaluator": own | {"resources": {"cpu": "3"}}}
    plan = plan_gang(spec(workers=3, roles=roles, resources={"cpu": "1"}), GANG, attempt=2)
    pods = [pod_manifest(plan, worker, "uid") for worker in plan.workers]
    assert [pod["metadata"]["name"].rpartition("-2-")[2] for pod in pods] == ["w0", "w1", "w2", "w3", "w4"]
    labels = [pod["metadata"]["labels"] for pod in pods]
    assert [f"{each['lockstep/role']} {each['lockstep/role-index']}" for each in labels] == [
        "chief 0",
        "worker 0",
        "worker 1",
        "ps 0",
        "evaluator 0",
    ]
    assert [pod["spec"]["containers"][0]["resources"]["limits"]["cpu"] for pod in pods] == ["1", "1", "1", "1", "3"]


def test_a_pod_has_one_container_so_that_none_outlives_the_worker() -> None:
    """The sidecar with which KubernetesPodOperator fetches results cannot always be ended (apache/airflow#37298)."""
    plan = plan_gang(spec(), GANG, attempt=1)
    for worker in plan.workers:
        (container,) = pod_manifest(plan, worker, "uid")["spec"]["containers"]
        assert container["name"] == CONTAINER


def test_a_launch_with_other_roles_is_another_launch() -> None:
    chief = {"chief": {}, "worker": {}}
    assert spec_digest(spec()) != spec_digest(spec(roles=chief))
    assert spec_digest(spec(roles=chief)) != spec_digest(spec(roles={"worker": {"replicas": 2}}))


def test_equal_workers_are_workers_by_rank() -> None:
    plan = plan_gang(spec(workers=2), GANG, attempt=1)
    assert [str(worker.member) for worker in plan.workers] == ["worker 0", "worker 1"]


def test_a_network_policy_lets_the_gang_s_own_pods_in_on_its_port_and_nobody_else() -> None:
    plan = plan_gang(spec(network_policy=True, port=2300), GANG, attempt=2)
    (policy,) = (thing.manifest for thing in plan.objects)
    own_pods = {"matchLabels": {"lockstep/gang": GANG.name}}
    assert policy == {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": f"{GANG.name}-2", "namespace": "default", "labels": plan.labels},
        "spec": {
            "podSelector": own_pods,
            "policyTypes": ["Ingress"],
            "ingress": [{"from": [{"podSelector": own_pods}], "ports": [{"protocol": "TCP", "port": 2300}]}],
        },
    }
    assert all(own_pods["matchLabels"].items() <= worker.labels.items() for worker in plan.workers)


def test_the_policy_is_there_before_the_group_of_a_scheduler() -> None:
    plan = plan_gang(spec(network_policy=True, gang_scheduling="volcano"), GANG, attempt=1)
    assert [thing.plural for thing in plan.objects] == ["networkpolicies", "podgroups"]


@pytest.mark.parametrize(
    "given",
    [
        pytest.param({}, id="nobody asks for one"),
        pytest.param({"network_policy": True, "rendezvous": "loopback"}, id="pods share their machine's network"),
    ],
)
def test_there_is_no_policy_where(given: dict[str, object]) -> None:
    ports = (1, 2) if given else ()
    assert plan_gang(spec(**given), GANG, attempt=1, loopback_ports=ports).objects == ()


ISTIO = "sidecar.istio.io/inject"


def test_istio_is_told_to_stay_out_unless_the_dag_says_otherwise() -> None:
    """Istio reads the label, older ones the annotation."""

    def told(**options: object) -> tuple[str, str]:
        plan = plan_gang(spec(pod_options=options), GANG, attempt=1)
        metadata = pod_manifest(plan, plan.workers[0], "uid")["metadata"]
        return metadata["labels"][ISTIO], metadata["annotations"][ISTIO]

    assert told() == ("false", "false")
    assert told(labels={ISTIO: "true"}, annotations={ISTIO: "true"}) == ("true", "true")


def test_what_is_planned_for_a_pod_cannot_be_relabelled() -> None:
    plan = plan_gang(spec(pod_options={"labels": {"lockstep/rank": "7", "team": "vision"}}), GANG, attempt=1)
    labels = pod_manifest(plan, plan.workers[0], "uid")["metadata"]["labels"]
    assert (labels["lockstep/rank"], labels["team"]) == ("0", "vision")


@pytest.mark.parametrize(
    ("option", "told"),
    [
        pytest.param(
            "node_selectors", "(did you mean 'node_selector'?); valid ones: ", id="a name that is near another"
        ),
        pytest.param("image", "'image' is planned for each worker; use the operator's own arguments", id="planned"),
        pytest.param("deferrable", "'deferrable' does not describe a pod", id="of the life cycle"),
    ],
)
def test_a_pod_option_that_there_is_not_is_refused(option: str, told: str) -> None:
    with pytest.raises(InvalidSpec) as refused:
        checked_pod_options({option: None})
    assert told in str(refused.value)
