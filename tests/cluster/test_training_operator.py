"""Kubeflow's training operator works beside Lockstep: its TFJob, with our image, for those who come from there."""

from __future__ import annotations

import os
from typing import Any

from lockstep.pod_security import RESTRICTED
from tests.cluster.gangs import MEET
from tests.cluster.installation import TRAINER, Installation


def test_a_tfjob_of_two_workers_succeeds(installation: Installation) -> None:
    """Each gets a TF_CONFIG from the operator, and meets the other at the address in it."""
    installation.kubectl("apply", "--filename=-", objects=tfjob("pair", MEET))
    try:
        installation.kubectl("wait", "tfjob/pair", "--for=condition=Succeeded", "--timeout=90s")
        pods = installation.administrator.get("pods", f"--namespace={installation.namespace}")["items"]
        assert sorted(pod["metadata"]["name"] for pod in pods) == ["pair-worker-0", "pair-worker-1"]
        assert "pair-worker-1" in installation.kubectl("logs", "pair-worker-0")
    finally:
        installation.kubectl("delete", "tfjob", "pair", "--wait=false")


def tfjob(name: str, code: str) -> dict[str, Any]:
    container = {
        "name": "tensorflow",  # the operator goes by this name
        "image": os.environ["LOCKSTEP_TEST_IMAGE"],
        "command": ["python", "-uc", code],
        "securityContext": RESTRICTED["container_security_context"],
    }
    pod = {
        "containers": [container],
        "serviceAccountName": TRAINER,
        "automountServiceAccountToken": False,
        "securityContext": RESTRICTED["security_context"],
    }
    worker = {"replicas": 2, "restartPolicy": "Never", "template": {"spec": pod}}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "metadata": {"name": name},
        "spec": {"runPolicy": {"cleanPodPolicy": "None"}, "tfReplicaSpecs": {"Worker": worker}},
    }
