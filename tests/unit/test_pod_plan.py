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
