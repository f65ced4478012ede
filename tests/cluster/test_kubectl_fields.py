"""What kubectl shows of a gang's worker on the one-machine API and here: the same fields, whatever their values."""

from __future__ import annotations

import json
import os
import re
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from kubernetes.client import V1Eviction, V1Pod

from lockstep.names import GangId
from lockstep.pod_plan import plan_gang
from lockstep.worker_pod import pod_manifest, service_manifest
from tests.cluster.administrator import Administrator
from tests.contract.cluster_api import ClusterApi, api_of, condition, unique
from tests.contract.conftest import wait_for_service_account
from tests.local.kube.kubectl import Kubectl
from tests.local.kube.running_server import IMAGE, start_server
from tests.unit.builders import spec

# Fields that the one-machine API leaves out, and why it may.
LEFT_OUT = {
    ".status.allocatedResources": "of changing a pod's resources while it runs, which it refuses",
    ".status.resources": "as told by the pod's control group, which a local process does not have",
}
SLEEP = "import time; print('ready'); time.sleep(600)"
STAY = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {SLEEP}"
GATE = {"schedulingGates": [{"name": "lockstep.test/gate"}]}


@dataclass(frozen=True, kw_only=True, slots=True)
class Side:
    """One of the two APIs, in a namespace of the test's own."""

    api: ClusterApi
    kubectl: Kubectl

    def worker(self, code: str, pod_spec: dict[str, Any], given: dict[str, Any]) -> str:
        """Create a gang's Service and its first worker as the product does; returns the pod's name."""
        asked = {"image": self.api.image, "namespace": self.api.namespace, "command": ("python", "-uc", code)}
        asked |= {"resources": {"cpu": "10m", "memory": "64Mi"}} | given
        plan = plan_gang(spec(**asked), GangId(dag_id="kubectl", run_id=uuid.uuid4().hex, task_id="train"), attempt=1)
        service = self.api.core.create_namespaced_service(self.api.namespace, service_manifest(plan))
        manifest = pod_manifest(plan, plan.workers[0], service.metadata.uid)
        return str(self.api.create(manifest | {"spec": manifest["spec"] | pod_spec}).metadata.name)

    def show(self, *words: str) -> str:
        return self.kubectl(*words, f"--namespace={self.api.namespace}")


@dataclass(frozen=True, kw_only=True, slots=True)
class State:
    """A state that a worker can be in: how it gets there, and how to see that it is."""

    holds: Callable[[V1Pod], Any]
    code: str = SLEEP
    pod_spec: Any = None
    given: Any = None
    event: str | None = None  # the last that is written about a pod in this state
    evicted: bool = False


def judged(pod: V1Pod) -> bool:
    return condition(pod, "PodScheduled") is not None


def running(pod: V1Pod) -> bool:
    statuses = pod.status.container_statuses
    return pod.status.phase == "Running" and statuses[0].resources is not None


def over(pod: V1Pod) -> bool:
    """The container has ended, and what was around it is cleared away."""
    around = condition(pod, "PodReadyToStartContainers")
    return pod.status.phase in ("Succeeded", "Failed") and around is not None and around.status == "False"


def backing_off(pod: V1Pod) -> bool:
    statuses = pod.status.container_statuses
    return bool(statuses) and statuses[0].state.waiting.reason == "ImagePullBackOff"


STATES = {
    "running": State(holds=running, event="Started"),
    "succeeded": State(code="pass", holds=over, event="Started"),
    "failed": State(code="raise SystemExit(print('why') or 3)", holds=over, event="Started"),
    "held by a gate": State(pod_spec=GATE, holds=judged),
    "too large for every node": State(
        given={"resources": {"cpu": "1000", "memory": "64Mi"}}, holds=judged, event="FailedScheduling"
    ),
    "without its image": State(given={"image": "registry.invalid/absent:1"}, holds=backing_off, event="BackOff"),
    "being evicted": State(
        code=STAY, given={"timeouts": {"grace_s": 600}}, holds=running, event="Killing", evicted=True
    ),
}


@pytest.fixture(scope="module")
def here(admin: Administrator) -> Iterator[Side]:
    """The real cluster."""
    with _side(admin.kubeconfig, os.environ["LOCKSTEP_TEST_IMAGE"], admin.program) as side:
        yield side


@pytest.fixture(scope="module")
def local(admin: Administrator, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Side]:
    """The one-machine API."""
    server = start_server(tmp_path_factory.mktemp("kube"))
    with _side(server.kubeconfig, IMAGE, admin.program) as side:
        yield side
    server.end()


@contextmanager
def _side(kubeconfig: Path, image: str, program: str) -> Iterator[Side]:
    namespace = unique("lockstep-kubectl")
    with api_of(kubeconfig, image, namespace) as api:
        api.core.create_namespace({"metadata": {"name": namespace}})
        wait_for_service_account(api.core, namespace)
        env = {"PATH": os.environ["PATH"], "HOME": str(kubeconfig.parent), "KUBECONFIG": str(kubeconfig)}
        yield Side(api=api, kubectl=Kubectl(program=program, env=env))
        api.core.delete_collection_namespaced_pod(namespace, grace_period_seconds=0)
        api.core.delete_namespace(namespace)


@pytest.fixture(scope="module", params=STATES)
def shown(request: pytest.FixtureRequest, local: Side, here: Side) -> tuple[Shown, Shown]:
    """A worker in the same state on both."""
    state = STATES[request.param]
    with ThreadPoolExecutor() as both:
        there, real = (both.submit(show, side, state) for side in (local, here))
        return there.result(), real.result()


def test_the_same_fields_are_there(shown: tuple[Shown, Shown]) -> None:
    """`kubectl get pod -o json`, less what is left out for a reason."""
    fields, expected = (set(field_paths(each.json)) for each in shown)
    assert {each for each in expected - fields if not each.startswith(tuple(LEFT_OUT))} == set()
    assert fields - expected == set()


def test_the_description_has_the_same_sections_and_events(shown: tuple[Shown, Shown]) -> None:
    described, expected = (each.description for each in shown)
    assert sections(described) == sections(expected)
    assert events(described) == events(expected)


def test_the_table_has_the_same_columns_and_state(shown: tuple[Shown, Shown]) -> None:
    """`-o wide`: what is shown of the state, of readiness and restarts is the same as well."""
    (columns, row), (expected_columns, expected_row) = (each.table for each in shown)
    assert columns == expected_columns
    assert row[1:4] == expected_row[1:4]


def test_a_watch_shows_the_same_states_one_after_the_other(local: Side, here: Side) -> None:
    with ThreadPoolExecutor() as both:
        watched, expected = both.map(states_watched, (local, here))
    assert watched == expected


@dataclass(frozen=True, kw_only=True, slots=True)
class Shown:
    """What kubectl says of one pod. `table` is the header and the row, cut into words."""

    json: Any
    description: str
    table: tuple[list[str], list[str]]


def show(side: Side, state: State) -> Shown:
    name = side.worker(state.code, state.pod_spec or {}, state.given or {})
    side.api.seen(name, state.holds, "in the state asked for")
    if state.evicted:
        side.api.logged(name, "ready")
        side.api.core.create_namespaced_pod_eviction(name, side.api.namespace, V1Eviction(metadata={"name": name}))
    if state.event:
        side.api.event(name, state.event)
    header, row = side.show("get", "pod", name, "--output=wide").splitlines()
    return Shown(
        json=json.loads(side.show("get", "pod", name, "--output=json")),
        description=side.show("describe", "pod", name),
        table=(re.split(r"\s{2,}", header.strip()), row.split()),
    )


def states_watched(side: Side) -> list[str]:
    """STATUS as `kubectl get -w` prints it while a gate is lifted and the worker runs to its end."""
    name = side.worker("import time; time.sleep(2)", GATE, {})
    side.api.seen(name, judged, "judged")
    seen: list[str] = []
    words = ("get", "pod", name, "--watch", "--no-headers", f"--namespace={side.api.namespace}")
    with side.kubectl.streaming(*words) as lines:
        for line in lines:
            state = line.split()[2]
            if not seen:
                lift = [{"op": "remove", "path": "/spec/schedulingGates"}]
                side.api.core.patch_namespaced_pod(name, side.api.namespace, lift)
            if state not in seen:
                seen.append(state)
            if state == "Completed":
                break
    return seen


def field_paths(value: Any, prefix: str = "") -> Iterator[str]:
    """Every field as a path; entries of a list go by their type, where they have one."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield f"{prefix}.{key}"
            yield from field_paths(inner, f"{prefix}.{key}")
    elif isinstance(value, list):
        for inner in value:
            kind = inner.get("type", "") if isinstance(inner, dict) else ""
            yield from field_paths(inner, f"{prefix}[{kind}]")


def sections(description: str) -> set[str]:
    """Headings of `kubectl describe`, with their indentation: "Containers", "    Restart Count"."""
    above_events = description.partition("\nEvents:")[0]
    return set(re.findall(r"^ *[A-Z][A-Za-z -]*(?=:)", above_events, flags=re.MULTILINE))


def events(description: str) -> set[tuple[str, ...]]:
    """Type, reason and source of the events that `kubectl describe` lists."""
    rows = [re.split(r"\s{2,}", line.strip()) for line in description.partition("\nEvents:")[2].splitlines()]
    return {(row[0], row[1], row[3]) for row in rows if row[0] in ("Normal", "Warning")}
