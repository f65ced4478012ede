"""A gang as values: what is asked of Kubernetes, and what two launches have in common."""

from __future__ import annotations

import pytest
from airflow.providers.cncf.kubernetes.secret import Secret
from kubernetes.client import V1EnvFromSource, V1SecretEnvSource, V1Toleration

from lockstep.pod_plan import plan_gang, spec_digest
from lockstep.worker_pod import pod_manifest
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


def test_a_launch_with_other_roles_is_another_launch() -> None:
    chief = {"chief": {}, "worker": {}}
    assert spec_digest(spec()) != spec_digest(spec(roles=chief))
    assert spec_digest(spec(roles=chief)) != spec_digest(spec(roles={"worker": {"replicas": 2}}))


def test_equal_workers_are_workers_by_rank() -> None:
    plan = plan_gang(spec(workers=2), GANG, attempt=1)
    assert [str(worker.member) for worker in plan.workers] == ["worker 0", "worker 1"]
