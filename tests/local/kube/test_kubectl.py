"""A person with kubectl can work with the one-machine API as with any cluster."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.contract.cluster_api import ClusterApi
from tests.local.kube.kubectl import Kubectl

SLEEPER = "import time; print('ready'); time.sleep(600)"


def as_text(manifest: Any) -> str:
    return json.dumps(manifest)


def test_get_shows_readable_columns(kubectl: Kubectl, kube: ClusterApi) -> None:
    name = kube.create(kube.manifest(SLEEPER)).metadata.name
    kube.running(name)

    header, row = kubectl("get", "pod", name).splitlines()

    assert header.split() == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert re.fullmatch(rf"{name}\s+1/1\s+Running\s+0\s+\d+s", row.strip())
    wide = kubectl("get", "pods", "-o", "wide")
    assert "127.0.0.1" in wide
    assert "lockstep-local" in wide


@pytest.mark.parametrize(
    ("code", "container", "status"),
    [
        pytest.param("pass", {}, "Completed", id="succeeded"),
        pytest.param("raise SystemExit(3)", {}, "Error", id="failed"),
        pytest.param(
            "import time; x = bytearray(400 << 20); x[::4096] = b'x' * 102400; time.sleep(60)",
            {"resources": {"limits": {"memory": "128Mi"}}},
            "OOMKilled",
            id="killed for its memory",
        ),
    ],
)
def test_get_says_how_a_pod_ended(kubectl: Kubectl, kube: ClusterApi, code: str, container: Any, status: str) -> None:
    name = kube.run(code, container=container).metadata.name

    assert kubectl("get", "pod", name, "--no-headers").split()[1:3] == ["0/1", status]


def test_get_watches(kubectl: Kubectl, kube: ClusterApi) -> None:
    """`get -w` prints a row for each change until the pod has completed."""
    name = kube.create(kube.manifest(schedulingGates=[{"name": "lockstep.test/gate"}])).metadata.name
    kube.seen(name, lambda pod: pod.status.conditions, "judged")
    with kubectl.streaming("get", "pod", name, "-w", "--no-headers") as lines:
        seen = [next(lines).split()[2]]
        kube.core.patch_namespaced_pod(name, "default", [{"op": "remove", "path": "/spec/schedulingGates"}])
        for line in lines:
            seen.append(line.split()[2])
            if seen[-1] == "Completed":
                break

    assert seen[0] == "SchedulingGated"
    assert seen.index("ContainerCreating") < seen.index("Running") < seen.index("Completed")


def test_create_apply_and_delete(kubectl: Kubectl, kube: ClusterApi) -> None:
    manifest = kube.manifest(SLEEPER)
    name = manifest["metadata"]["name"]

    assert kubectl("create", "-f", "-", stdin=as_text(manifest)).strip() == f"pod/{name} created"
    manifest["metadata"]["labels"]["more"] = "yes"
    assert f"pod/{name} configured" in kubectl("apply", "-f", "-", stdin=as_text(manifest))
    assert kubectl("apply", "-f", "-", stdin=as_text(manifest)).strip() == f"pod/{name} unchanged"
    assert kube.read(name).metadata.labels["more"] == "yes"
    assert f'pod "{name}" deleted' in kubectl("delete", "pod", name, "--grace-period=1")
    assert "NotFound" in kubectl("get", "pod", name, code=1)


def test_create_names_an_unknown_field(kubectl: Kubectl, kube: ClusterApi) -> None:
    manifest = kube.manifest(colour="red")

    assert 'unknown field "spec.colour"' in kubectl("create", "-f", "-", stdin=as_text(manifest), code=1)


def test_logs_follow_to_the_end(kubectl: Kubectl, kube: ClusterApi) -> None:
    name = kube.create(kube.manifest("import time\nfor i in range(3): print(i); time.sleep(0.2)")).metadata.name
    kube.running(name)

    assert kubectl("logs", "-f", name).split() == ["0", "1", "2"]
    assert kubectl("logs", "--tail=1", name).split() == ["2"]
    stamped = kubectl("logs", "--timestamps", name).splitlines()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z 0", stamped[0])


def test_describe_shows_state_and_events(kubectl: Kubectl, kube: ClusterApi) -> None:
    name = kube.run("raise SystemExit(3)").metadata.name

    text = kubectl("describe", "pod", name)

    for expected in (
        r"Exit Code:\s+3",
        r"Reason:\s+Error",
        r"Successfully assigned default/",
        r"Container started",
    ):
        assert re.search(expected, text), text


def test_describe_tells_which_images_there_are(kubectl: Kubectl, kube: ClusterApi) -> None:
    name = kube.create(kube.manifest(container={"image": "typo:1"})).metadata.name
    kube.event(name, "BackOff")

    assert kubectl("get", "pod", name, "--no-headers").split()[2] == "ImagePullBackOff"
    assert 'no image "typo:1" on this machine; it has: lockstep/trainer:local' in kubectl("describe", "pod", name)


def test_other_kinds_can_be_seen(kubectl: Kubectl, kube: ClusterApi) -> None:
    name = kube.run().metadata.name
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "seen"}, "spec": {"ports": [{"port": 2222}]}}
    kubectl("create", "-f", "-", stdin=as_text(service))

    assert "Active" in kubectl("get", "namespaces")
    assert "Ready" in kubectl("get", "nodes")
    assert "default" in kubectl("get", "serviceaccounts")
    assert f"pod/{name}" in kubectl("get", "events")
    assert "2222/TCP" in kubectl("get", "svc", "seen")
    listed = kubectl("get", "all")
    assert f"pod/{name}" in listed
    assert "service/seen" in listed
    kubectl("delete", "service", "seen")


def test_labels_conditions_and_rights(kubectl: Kubectl, kube: ClusterApi) -> None:
    name = kube.create(kube.manifest(SLEEPER)).metadata.name

    assert "condition met" in kubectl("wait", "--for=condition=Ready", f"pod/{name}", "--timeout=30s")
    assert "labeled" in kubectl("label", "pod", name, "a=b")
    assert "annotated" in kubectl("annotate", "pod", name, "note=hello")
    assert kubectl("get", "pods", "-l", "a=b", "-o", "name").strip() == f"pod/{name}"
    assert kubectl("auth", "can-i", "create", "pods").strip() == "yes"
    kubectl("delete", "pods", "-l", "a=b", "--now")


def test_the_kubeconfig_is_needed(kubectl: Kubectl) -> None:
    anonymous = Kubectl(program=kubectl.program, env={"PATH": kubectl.env["PATH"], "HOME": kubectl.env["HOME"]})
    server = kubectl("config", "view", "--minify", "-o", "jsonpath={.clusters[0].cluster.server}")
    options = ("--server", server, "--insecure-skip-tls-verify", "--token", "wrong")

    assert "must be logged in" in anonymous("get", "pods", *options, code=1)
