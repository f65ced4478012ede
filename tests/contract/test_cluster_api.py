"""What must be true of any cluster that runs a gang: the local API and a real one pass the same claims, one by one."""

from __future__ import annotations

import base64
import time
from typing import Any

import kubernetes_asyncio.client
import kubernetes_asyncio.config
import kubernetes_asyncio.watch
import pytest
import urllib3
import yaml
from kubernetes.client import AuthorizationV1Api, V1DeleteOptions, V1Eviction, VersionApi
from kubernetes.watch import Watch

from tests.contract.cluster_api import WAIT_S, ClusterApi, condition, container_state, refused, unique

HANDLER = """
import signal, sys, time
def stop(number, frame):
    print('asked to stop')
    sys.exit(7)
signal.signal(signal.SIGTERM, stop)
print('ready')
time.sleep(600)
"""
NO_HANDLER = "import time; print('ready'); time.sleep(600)"
MESSAGE = "import os; open(os.environ.get('LOCKSTEP_TERMINATION_LOG', '/dev/termination-log'), 'w').write({text})"


# --- a pod from its birth to its end


def test_a_pod_runs_to_success(cluster_api: ClusterApi) -> None:
    """Exit code 0: phase Succeeded, the container Completed, the pod no longer ready."""
    pod = cluster_api.run("print('hello')")

    assert pod.status.phase == "Succeeded"
    assert (container_state(pod).terminated.exit_code, container_state(pod).terminated.reason) == (0, "Completed")
    assert container_state(pod).terminated.finished_at >= container_state(pod).terminated.started_at
    assert condition(pod, "PodScheduled").status == "True"
    assert (condition(pod, "Ready").status, condition(pod, "Ready").reason) == ("False", "PodCompleted")
    assert pod.spec.node_name
    assert pod.status.host_ip
    assert pod.status.start_time


@pytest.mark.parametrize("code", [1, 3, 64, 143, 255])
def test_a_container_that_exits_badly_fails_its_pod(cluster_api: ClusterApi, code: int) -> None:
    """Any other exit code: phase Failed, reason Error, the code as it was."""
    pod = cluster_api.run(f"raise SystemExit({code})")

    assert pod.status.phase == "Failed"
    assert (container_state(pod).terminated.exit_code, container_state(pod).terminated.reason) == (code, "Error")


def test_a_running_pod_is_ready(cluster_api: ClusterApi) -> None:
    name = cluster_api.create(cluster_api.manifest(NO_HANDLER)).metadata.name

    pod = cluster_api.running(name)

    assert condition(pod, "Ready").status == "True"
    assert pod.status.container_statuses[0].ready
    assert container_state(pod).running.started_at
    assert pod.status.pod_ip
    cluster_api.core.delete_namespaced_pod(name, cluster_api.namespace, grace_period_seconds=0)


def test_a_watch_sees_the_life_of_a_pod_in_order(cluster_api: ClusterApi) -> None:
    """Added while Pending, then Running, then Succeeded, each change with a greater version."""
    version = cluster_api.version()
    name = cluster_api.create(cluster_api.manifest("print('hello')")).metadata.name

    kinds, phases, versions = [], [], []
    for event in cluster_api.watch(name, resource_version=version):
        kinds.append(event["type"])
        phases.append(event["object"].status.phase)
        versions.append(int(event["object"].metadata.resource_version))
        if phases[-1] == "Succeeded":
            break

    assert kinds == ["ADDED", *["MODIFIED"] * (len(kinds) - 1)]
    assert sorted(set(phases), key=phases.index) == ["Pending", "Running", "Succeeded"]
    assert versions == sorted(set(versions))


def test_events_tell_how_a_pod_started(cluster_api: ClusterApi) -> None:
    pod = cluster_api.run("print('hello')")

    for reason in ("Scheduled", "Pulled", "Created", "Started"):
        event = cluster_api.event(pod.metadata.name, reason)
        assert event.type == "Normal"
        assert event.involved_object.uid == pod.metadata.uid


def test_a_pod_counts_the_changes_of_its_spec_and_its_status_tells_which_was_seen(cluster_api: ClusterApi) -> None:
    name = gated(cluster_api)
    assert cluster_api.read(name).metadata.generation == 1

    lift = [{"op": "remove", "path": "/spec/schedulingGates"}]
    lifted = cluster_api.core.patch_namespaced_pod(name, cluster_api.namespace, lift)
    pod = cluster_api.ended(name)

    assert lifted.metadata.generation == pod.metadata.generation == 2
    assert pod.status.observed_generation == 2
    assert {each.observed_generation for each in pod.status.conditions} == {2}


def test_a_pod_outstays_a_lost_node_only_for_a_while(cluster_api: ClusterApi) -> None:
    """Unless it says itself for how long."""
    own = {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 7}
    name = cluster_api.create(
        cluster_api.manifest(tolerations=[own], schedulingGates=[{"name": "lockstep.test/gate"}])
    ).metadata.name

    stays_s = {each.key: each.toleration_seconds for each in cluster_api.read(name).spec.tolerations}

    assert stays_s.keys() == {"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"}
    assert stays_s["node.kubernetes.io/unreachable"] == 7
    assert stays_s["node.kubernetes.io/not-ready"] > 0
    cluster_api.core.delete_namespaced_pod(name, cluster_api.namespace)


def test_what_is_given_empty_is_stored_as_it_is_read_back(cluster_api: ClusterApi) -> None:
    """An empty list or map is as good as none, and so is "no" to a plain question; an empty part of the spec stays."""
    empty = {"affinity": {}, "securityContext": {}, "nodeSelector": {}, "imagePullSecrets": [], "hostNetwork": False}
    name = cluster_api.create(
        cluster_api.manifest(schedulingGates=[{"name": "lockstep.test/gate"}], **empty)
    ).metadata.name

    stored = cluster_api.client.sanitize_for_serialization(cluster_api.read(name))["spec"]

    assert (stored["affinity"], stored["securityContext"]) == ({}, {})
    assert not {"nodeSelector", "imagePullSecrets", "hostNetwork"} & stored.keys()
    cluster_api.core.delete_namespaced_pod(name, cluster_api.namespace)


def test_a_running_container_tells_the_resources_it_has(cluster_api: ClusterApi) -> None:
    resources = {"requests": {"cpu": "10m", "memory": "64Mi"}, "limits": {"memory": "64Mi"}}
    name = cluster_api.create(cluster_api.manifest(NO_HANDLER, container={"resources": resources})).metadata.name

    status = cluster_api.running(name).status.container_statuses[0]

    assert status.resources.limits == resources["limits"]
    assert status.allocated_resources == resources["requests"]
    cluster_api.core.delete_namespaced_pod(name, cluster_api.namespace, grace_period_seconds=0)


# --- what a container is given


def test_variables_are_expanded_in_order_and_fields_are_resolved(cluster_api: ClusterApi) -> None:
    """`$(A)` sees what was defined before it; `$$(A)` and unknown names stay; the downward API fills in."""
    fields = {"NAME": "metadata.name", "SPACE": "metadata.namespace", "UID": "metadata.uid", "IP": "status.podIP"}
    fields["LABEL"] = "metadata.labels['test']"
    env = [
        {"name": "A", "value": "1"},
        {"name": "B", "value": "$(A)-$(C)-$$(A)"},
        {"name": "C", "value": "3"},
        *({"name": key, "valueFrom": {"fieldRef": {"fieldPath": path}}} for key, path in fields.items()),
    ]
    code = "import os; [print(os.environ[name]) for name in ('B', 'NAME', 'SPACE', 'UID', 'IP', 'LABEL')]"
    pod = cluster_api.run(code, container={"env": env})

    metadata = pod.metadata
    expected = ["1-$(C)-$(A)", metadata.name, metadata.namespace, metadata.uid, pod.status.pod_ip, "contract"]
    assert cluster_api.log(metadata.name).splitlines() == expected


def test_arguments_are_expanded_too(cluster_api: ClusterApi) -> None:
    container = {"args": ["$(WHO)", "$$(WHO)", "$(NOBODY)"], "env": [{"name": "WHO", "value": "me"}]}
    pod = cluster_api.run("import sys; print(sys.argv[1:])", container=container)

    assert cluster_api.log(pod.metadata.name).strip() == "['me', '$(WHO)', '$(NOBODY)']"


def test_the_host_name_is_the_pods(cluster_api: ClusterApi) -> None:
    pod = cluster_api.run("import os; print(os.environ['HOSTNAME'])")

    assert cluster_api.log(pod.metadata.name).strip() == pod.metadata.name


def test_the_working_directory_can_be_set(cluster_api: ClusterApi) -> None:
    pod = cluster_api.run("import os; print(os.getcwd())", container={"workingDir": "/usr"})

    assert cluster_api.log(pod.metadata.name).strip() == "/usr"


def test_no_variable_of_the_nodes_own_reaches_a_container(cluster_api: ClusterApi) -> None:
    pod = cluster_api.run("import os; print('KUBECONFIG' in os.environ, 'PYTEST_CURRENT_TEST' in os.environ)")

    assert cluster_api.log(pod.metadata.name).strip() == "False False"


def test_a_missing_secret_keeps_the_container_from_being_created(cluster_api: ClusterApi) -> None:
    env = [{"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "absent", "key": "key"}}}]
    name = cluster_api.create(cluster_api.manifest(container={"env": env})).metadata.name

    pod = cluster_api.seen(name, lambda pod: waiting_reason(pod) == "CreateContainerConfigError", "waiting")

    assert container_state(pod).waiting.message == 'secret "absent" not found'
    cluster_api.core.delete_namespaced_pod(name, cluster_api.namespace, grace_period_seconds=0)


# --- how a container ends


def test_what_a_container_writes_is_its_termination_message(cluster_api: ClusterApi) -> None:
    pod = cluster_api.run(MESSAGE.format(text="'disk full'") + "; raise SystemExit(3)")

    assert container_state(pod).terminated.message == "disk full"


def test_a_termination_message_has_at_most_4096_bytes(cluster_api: ClusterApi) -> None:
    pod = cluster_api.run(MESSAGE.format(text="'x' * 9000"))

    assert container_state(pod).terminated.message == "x" * 4096


@pytest.mark.parametrize(
    ("policy", "code", "expected"),
    [
        pytest.param("FallbackToLogsOnError", 1, "the reason\n", id="failed: the log's end"),
        pytest.param("FallbackToLogsOnError", 0, None, id="succeeded: no message"),
        pytest.param("File", 1, None, id="not asked for: no message"),
    ],
)
def test_the_end_of_the_log_stands_in_for_a_message(
    cluster_api: ClusterApi, policy: str, code: int, expected: str | None
) -> None:
    container = {"terminationMessagePolicy": policy}
    pod = cluster_api.run(f"print('the reason'); raise SystemExit({code})", container=container)

    assert container_state(pod).terminated.message == expected


def test_a_container_over_its_memory_limit_is_oom_killed(cluster_api: ClusterApi) -> None:
    code = "import time; hoard = bytearray(400 * 1024 * 1024); hoard[::4096] = b'x' * 102400; time.sleep(60)"
    pod = cluster_api.run(code, container={"resources": {"limits": {"memory": "128Mi"}}})

    assert pod.status.phase == "Failed"
    assert (container_state(pod).terminated.exit_code, container_state(pod).terminated.reason) == (137, "OOMKilled")


def test_memory_of_child_processes_counts(cluster_api: ClusterApi) -> None:
    child = "import time; hoard = bytearray(400 * 1024 * 1024); hoard[::4096] = b'x' * 102400; time.sleep(60)"
    code = f"import subprocess, sys; sys.exit(subprocess.call([sys.executable, '-c', {child!r}]) and 5)"
    pod = cluster_api.run(code, container={"resources": {"limits": {"memory": "128Mi"}}})

    assert pod.status.phase == "Failed"
    assert container_state(pod).terminated.reason == "OOMKilled"


def test_a_pod_over_its_deadline_fails(cluster_api: ClusterApi) -> None:
    pod = cluster_api.run(NO_HANDLER, activeDeadlineSeconds=1, terminationGracePeriodSeconds=1)

    assert (pod.status.phase, pod.status.reason) == ("Failed", "DeadlineExceeded")


def test_a_program_that_does_not_exist_is_a_start_error(cluster_api: ClusterApi) -> None:
    pod = cluster_api.run(container={"command": ["no-such-program"]})

    terminated = container_state(pod).terminated
    assert (pod.status.phase, terminated.exit_code, terminated.reason) == ("Failed", 128, "StartError")
    assert "no-such-program" in terminated.message


def test_the_end_of_the_first_process_ends_its_children(cluster_api: ClusterApi) -> None:
    """A pod is over when its first process is, even if a child holds its output open."""
    code = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])"
    started = time.monotonic()
    pod = cluster_api.run(code)

    assert pod.status.phase == "Succeeded"
    assert time.monotonic() - started < WAIT_S / 2


# --- why a pod does not start


def test_an_image_that_does_not_exist_is_told(cluster_api: ClusterApi) -> None:
    """The container waits, ErrImagePull first, then ImagePullBackOff, and an event says why."""
    manifest = cluster_api.manifest(container={"image": "registry.invalid/absent:1"})
    name = cluster_api.create(manifest).metadata.name

    pod = cluster_api.seen(name, lambda pod: waiting_reason(pod) == "ImagePullBackOff", "backing off")
    event = cluster_api.event(name, "Failed")

    assert pod.status.phase == "Pending"
    assert "registry.invalid/absent:1" in event.message
    assert event.type == "Warning"
    with refused(400, "BadRequest") as status:
        cluster_api.log(name)
    assert "is waiting to start" in status["message"]
    cluster_api.core.delete_namespaced_pod(name, cluster_api.namespace)
    cluster_api.gone(name)


def test_a_pod_that_fits_nowhere_is_unschedulable(cluster_api: ClusterApi) -> None:
    manifest = cluster_api.manifest(container={"resources": {"requests": {"cpu": "10k", "memory": "1Mi"}}})
    name = cluster_api.create(manifest).metadata.name

    pod = cluster_api.seen(name, lambda pod: condition(pod, "PodScheduled") is not None, "judged")

    scheduled = condition(pod, "PodScheduled")
    assert (pod.status.phase, scheduled.status, scheduled.reason) == ("Pending", "False", "Unschedulable")
    assert "Insufficient cpu" in scheduled.message
    assert "Insufficient cpu" in cluster_api.event(name, "FailedScheduling").message
    cluster_api.core.delete_namespaced_pod(name, cluster_api.namespace)
    cluster_api.gone(name)


def test_a_node_selector_that_no_node_has_is_unschedulable(cluster_api: ClusterApi) -> None:
    name = cluster_api.create(cluster_api.manifest(nodeSelector={"lockstep.test/absent": "yes"})).metadata.name

    pod = cluster_api.seen(name, lambda pod: condition(pod, "PodScheduled") is not None, "judged")

    assert condition(pod, "PodScheduled").reason == "Unschedulable"
    cluster_api.core.delete_namespaced_pod(name, cluster_api.namespace)


def test_a_gated_pod_starts_when_its_gate_is_lifted(cluster_api: ClusterApi) -> None:
    name = cluster_api.create(cluster_api.manifest(schedulingGates=[{"name": "lockstep.test/gate"}])).metadata.name
    pod = cluster_api.seen(name, lambda pod: condition(pod, "PodScheduled") is not None, "judged")
    assert condition(pod, "PodScheduled").reason == "SchedulingGated"

    lift = [{"op": "remove", "path": "/spec/schedulingGates"}]
    cluster_api.core.patch_namespaced_pod(name, cluster_api.namespace, lift)

    assert cluster_api.ended(name).status.phase == "Succeeded"


# --- deletion


def test_a_deleted_pod_is_asked_to_stop_and_says_how_it_ended(cluster_api: ClusterApi) -> None:
    """SIGTERM reaches the handler; a watcher sees the deletion time, then the exit code, then the pod gone."""
    name = cluster_api.create(cluster_api.manifest(HANDLER)).metadata.name
    cluster_api.logged(name, "ready")
    version = cluster_api.read(name).metadata.resource_version

    deleted = cluster_api.core.delete_namespaced_pod(name, cluster_api.namespace)
    last = None
    for event in cluster_api.watch(name, resource_version=version):
        assert event["object"].metadata.deletion_timestamp is not None
        last = event["object"]
        if event["type"] == "DELETED":
            break

    assert deleted.metadata.deletion_grace_period_seconds == 5
    assert container_state(last).terminated.exit_code == 7
    cluster_api.event(name, "Killing")
    with refused(404, "NotFound"):
        cluster_api.read(name)


def test_a_process_without_a_handler_is_killed_after_the_grace_period(cluster_api: ClusterApi) -> None:
    """The first process of a container gets no signal that it has no handler for: 137, and not at once."""
    name = cluster_api.create(cluster_api.manifest(NO_HANDLER)).metadata.name
    cluster_api.logged(name, "ready")
    asked, version = time.monotonic(), cluster_api.version()

    cluster_api.core.delete_namespaced_pod(name, cluster_api.namespace, grace_period_seconds=2)
    last = cluster_api.last_state(name, since=version)

    assert container_state(last).terminated.exit_code == 137
    assert time.monotonic() - asked >= 1.5


def test_a_forced_deletion_removes_the_pod_at_once(cluster_api: ClusterApi) -> None:
    name = cluster_api.create(cluster_api.manifest(NO_HANDLER)).metadata.name
    cluster_api.running(name)

    cluster_api.core.delete_namespaced_pod(name, cluster_api.namespace, grace_period_seconds=0)

    with refused(404, "NotFound"):
        cluster_api.read(name)


def test_an_ended_pod_is_deleted_at_once(cluster_api: ClusterApi) -> None:
    name = cluster_api.run().metadata.name

    cluster_api.core.delete_namespaced_pod(name, cluster_api.namespace)

    with refused(404, "NotFound"):
        cluster_api.read(name)


def test_a_deletion_by_uid_spares_another_pod_of_that_name(cluster_api: ClusterApi) -> None:
    name = cluster_api.run().metadata.name
    wrong = V1DeleteOptions(preconditions={"uid": "00000000-0000-0000-0000-000000000000"})

    with refused(409, "Conflict") as status:
        cluster_api.core.delete_namespaced_pod(name, cluster_api.namespace, body=wrong)

    assert "UID in the precondition" in status["message"]
    cluster_api.core.delete_namespaced_pod(name, cluster_api.namespace)


def test_a_collection_is_deleted_by_label(cluster_api: ClusterApi) -> None:
    label = unique("group")
    names = []
    for number in range(3):
        manifest = cluster_api.manifest(schedulingGates=[{"name": "lockstep.test/gate"}])
        manifest["metadata"]["labels"] = {"group": label if number else "other"}
        names.append(cluster_api.create(manifest).metadata.name)

    cluster_api.core.delete_collection_namespaced_pod(cluster_api.namespace, label_selector=f"group={label}")

    for name in names[1:]:
        cluster_api.gone(name)
    assert cluster_api.read(names[0])
    cluster_api.core.delete_namespaced_pod(names[0], cluster_api.namespace)


def test_a_finalizer_keeps_a_pod_until_it_is_taken_away(cluster_api: ClusterApi) -> None:
    manifest = cluster_api.manifest()
    manifest["metadata"]["finalizers"] = ["lockstep.test/keep"]
    name = cluster_api.create(manifest).metadata.name
    cluster_api.ended(name)
    cluster_api.core.delete_namespaced_pod(name, cluster_api.namespace)
    assert cluster_api.read(name).metadata.deletion_timestamp is not None

    cluster_api.core.patch_namespaced_pod(name, cluster_api.namespace, {"metadata": {"finalizers": None}})

    with refused(404, "NotFound"):
        cluster_api.read(name)


def test_eviction_deletes_a_pod_and_says_so(cluster_api: ClusterApi) -> None:
    name = cluster_api.create(cluster_api.manifest(HANDLER)).metadata.name
    cluster_api.logged(name, "ready")
    eviction, version = V1Eviction(metadata={"name": name}), cluster_api.version()

    cluster_api.core.create_namespaced_pod_eviction(name, cluster_api.namespace, eviction)
    last = cluster_api.last_state(name, since=version)

    disruption = condition(last, "DisruptionTarget")
    assert (disruption.status, disruption.reason) == ("True", "EvictionByEvictionAPI")


# --- owners


def service(name: str, **spec: Any) -> dict[str, Any]:
    ports = [{"name": "tensorflow", "port": 2222}]
    return {"metadata": {"name": name}, "spec": {"clusterIP": "None", "ports": ports} | spec}


def owned_pod(cluster_api: ClusterApi, owner: Any) -> str:
    manifest = cluster_api.manifest(schedulingGates=[{"name": "lockstep.test/gate"}])
    reference = {"apiVersion": "v1", "kind": "Service", "name": owner.metadata.name, "uid": owner.metadata.uid}
    manifest["metadata"]["ownerReferences"] = [reference]
    return str(cluster_api.create(manifest).metadata.name)


@pytest.mark.parametrize("propagation", ["Background", "Foreground"])
def test_deleting_a_service_deletes_the_pods_it_owns(cluster_api: ClusterApi, propagation: str) -> None:
    name = unique("gang")
    owner = cluster_api.core.create_namespaced_service(cluster_api.namespace, service(name))
    pods = [owned_pod(cluster_api, owner) for _ in range(2)]

    cluster_api.core.delete_namespaced_service(name, cluster_api.namespace, propagation_policy=propagation)

    for pod in pods:
        cluster_api.gone(pod)


def test_an_orphaned_pod_stays(cluster_api: ClusterApi) -> None:
    name = unique("gang")
    owner = cluster_api.core.create_namespaced_service(cluster_api.namespace, service(name))
    pod = owned_pod(cluster_api, owner)

    cluster_api.core.delete_namespaced_service(name, cluster_api.namespace, propagation_policy="Orphan")

    cluster_api.seen(pod, lambda pod: not pod.metadata.owner_references, "without owner")
    cluster_api.core.delete_namespaced_pod(pod, cluster_api.namespace)


def test_a_pod_whose_owner_never_was_is_collected(cluster_api: ClusterApi) -> None:
    owner = cluster_api.core.create_namespaced_service(cluster_api.namespace, service(unique("gang")))
    cluster_api.core.delete_namespaced_service(owner.metadata.name, cluster_api.namespace)

    cluster_api.gone(owned_pod(cluster_api, owner))


# --- logs


@pytest.fixture(scope="module")
def talker(cluster_api: ClusterApi) -> str:
    """A pod that printed five lines, with a second between the third and the fourth."""
    code = """
import time
for number in range(5):
    print('line', number)
    time.sleep(1.2 if number == 2 else 0)
"""
    return str(cluster_api.run(code).metadata.name)


def test_a_log_has_both_streams_each_in_its_order(cluster_api: ClusterApi) -> None:
    """Which of two streams was written to first is not known: a container runtime reads each by itself."""
    code = """
import sys
for number in range(5):
    print('out', number)
    print('err', number, file=sys.stderr)
"""
    lines = cluster_api.log(cluster_api.run(code).metadata.name).splitlines()

    assert len(lines) == 10
    for stream in ("out", "err"):
        assert [line for line in lines if line.startswith(stream)] == [f"{stream} {number}" for number in range(5)]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        pytest.param({}, [0, 1, 2, 3, 4], id="all of it"),
        pytest.param({"tail_lines": 2}, [3, 4], id="the last lines"),
        pytest.param({"tail_lines": 0}, [], id="none"),
        pytest.param({"tail_lines": 99}, [0, 1, 2, 3, 4], id="more than there are"),
        pytest.param({"since_seconds": 3600}, [0, 1, 2, 3, 4], id="the last hour"),
        pytest.param({"follow": True}, [0, 1, 2, 3, 4], id="following an ended pod ends"),
    ],
)
def test_a_log_is_cut_as_asked(cluster_api: ClusterApi, talker: str, query: Any, expected: list[int]) -> None:
    assert cluster_api.log(talker, **query).splitlines() == [f"line {number}" for number in expected]


def test_a_log_has_time_stamps_and_can_begin_at_one(cluster_api: ClusterApi, talker: str) -> None:
    """A follower that lost its connection goes on from the last line it saw."""
    stamped = [line.split(" ", 1) for line in cluster_api.log(talker, timestamps=True).splitlines()]
    assert [text for _, text in stamped] == [f"line {number}" for number in range(5)]
    assert [stamp for stamp, _ in stamped] == sorted(stamp for stamp, _ in stamped)

    path = f"/api/v1/namespaces/{cluster_api.namespace}/pods/{talker}/log"
    response = cluster_api.client.call_api(
        path, "GET", query_params={"sinceTime": stamped[3][0]}, auth_settings=["BearerToken"], _preload_content=False
    )
    assert response.data.decode().splitlines()[-2:] == ["line 3", "line 4"]
    assert "line 0" not in response.data.decode()


def test_a_log_has_no_more_bytes_than_asked(cluster_api: ClusterApi, talker: str) -> None:
    assert cluster_api.log(talker, limit_bytes=9) == "line 0\nli"


def test_a_followed_log_arrives_while_the_pod_runs(cluster_api: ClusterApi) -> None:
    name = cluster_api.create(cluster_api.manifest(NO_HANDLER)).metadata.name

    cluster_api.logged(name, "ready")

    assert cluster_api.read(name).status.phase == "Running"
    cluster_api.core.delete_namespaced_pod(name, cluster_api.namespace, grace_period_seconds=0)


def test_a_long_line_and_one_without_an_end_survive(cluster_api: ClusterApi) -> None:
    pod = cluster_api.run("print('x' * 100_000); print('no end', end='')")

    assert cluster_api.log(pod.metadata.name) == "x" * 100_000 + "\nno end"


@pytest.mark.parametrize(
    ("query", "code", "reason"),
    [
        pytest.param({"tail_lines": -1}, 422, "Invalid", id="a negative number of lines"),
        pytest.param({"container": "other"}, 400, "BadRequest", id="a container that is not there"),
        pytest.param({"previous": True}, 400, "BadRequest", id="a container that was never restarted"),
    ],
)
def test_a_log_query_that_makes_no_sense_is_refused(
    cluster_api: ClusterApi, talker: str, query: Any, code: int, reason: str
) -> None:
    with refused(code, reason):
        cluster_api.log(talker, **query)


# --- lists and watches


def test_labels_and_fields_select(cluster_api: ClusterApi) -> None:
    label = unique("select")
    for number in range(3):
        manifest = cluster_api.manifest(name=f"{label}-{number}", schedulingGates=[{"name": "lockstep.test/gate"}])
        manifest["metadata"]["labels"] = {"group": label, "rank": str(number)} | ({"odd": "yes"} if number == 1 else {})
        cluster_api.create(manifest)

    def ranks(selector: str, **query: Any) -> list[str]:
        listed = cluster_api.core.list_namespaced_pod(
            cluster_api.namespace, label_selector=f"group={label}{selector}", **query
        )
        return [pod.metadata.labels["rank"] for pod in listed.items]

    assert ranks("") == ["0", "1", "2"]
    assert ranks(",rank in (0, 2)") == ["0", "2"]
    assert ranks(",rank notin (0)") == ["1", "2"]
    assert ranks(",rank!=1") == ["0", "2"]
    assert ranks(",odd") == ["1"]
    assert ranks(",!odd") == ["0", "2"]
    assert ranks("", field_selector=f"metadata.name={label}-2") == ["2"]
    assert ranks("", field_selector="status.phase=Pending") == ["0", "1", "2"]
    assert ranks("", field_selector="status.phase!=Pending") == []
    cluster_api.core.delete_collection_namespaced_pod(cluster_api.namespace, label_selector=f"group={label}")


@pytest.mark.parametrize(
    "query",
    [
        pytest.param({"label_selector": "a in b"}, id="a label selector without brackets"),
        pytest.param({"field_selector": "spec.hostname=x"}, id="a field that is not selectable"),
    ],
)
def test_a_query_that_cannot_be_read_is_a_bad_request(cluster_api: ClusterApi, query: Any) -> None:
    with refused(400, "BadRequest"):
        cluster_api.core.list_namespaced_pod(cluster_api.namespace, **query)


def test_a_list_comes_in_pages(cluster_api: ClusterApi) -> None:
    label = unique("page")
    for number in range(3):
        manifest = cluster_api.manifest(name=f"{label}-{number}", schedulingGates=[{"name": "lockstep.test/gate"}])
        manifest["metadata"]["labels"] = {"group": label}
        cluster_api.create(manifest)
    query = {"label_selector": f"group={label}", "limit": 2}

    first = cluster_api.core.list_namespaced_pod(cluster_api.namespace, **query)
    second = cluster_api.core.list_namespaced_pod(cluster_api.namespace, _continue=first.metadata._continue, **query)

    assert [len(first.items), len(second.items)] == [2, 1]
    assert not second.metadata._continue
    cluster_api.core.delete_collection_namespaced_pod(cluster_api.namespace, label_selector=f"group={label}")


def test_a_watch_begins_after_the_version_it_names(cluster_api: ClusterApi) -> None:
    before = cluster_api.run().metadata.name
    version = cluster_api.version()
    after = cluster_api.create(cluster_api.manifest(schedulingGates=[{"name": "lockstep.test/gate"}])).metadata.name

    options = {"resource_version": version, "timeout_seconds": WAIT_S}
    for event in Watch().stream(cluster_api.core.list_namespaced_pod, cluster_api.namespace, **options):
        assert event["object"].metadata.name != before
        if event["object"].metadata.name == after:
            assert event["type"] == "ADDED"
            break
    cluster_api.core.delete_namespaced_pod(after, cluster_api.namespace)


def test_a_pod_that_stops_matching_leaves_the_watch(cluster_api: ClusterApi) -> None:
    label = unique("leave")
    manifest = cluster_api.manifest(schedulingGates=[{"name": "lockstep.test/gate"}])
    manifest["metadata"]["labels"] = {"group": label}
    name = cluster_api.create(manifest).metadata.name
    cluster_api.seen(name, lambda pod: condition(pod, "PodScheduled") is not None, "judged")

    kinds = []
    options = {"label_selector": f"group={label}", "timeout_seconds": WAIT_S}
    for event in Watch().stream(cluster_api.core.list_namespaced_pod, cluster_api.namespace, **options):
        kinds.append(event["type"])
        if len(kinds) == 1:
            patch = {"metadata": {"labels": {"group": "elsewhere"}}}
            cluster_api.core.patch_namespaced_pod(name, cluster_api.namespace, patch)
        if event["type"] == "DELETED":
            break

    assert kinds == ["ADDED", "DELETED"]
    assert cluster_api.read(name).metadata.labels["group"] == "elsewhere"
    cluster_api.core.delete_namespaced_pod(name, cluster_api.namespace)


def test_a_quiet_watch_sends_a_bookmark_and_ends_in_time(cluster_api: ClusterApi) -> None:
    """A real server sends it in the last two seconds, and misses them now and then when it is busy."""
    version = cluster_api.version()
    events = next((seen for _ in range(3) if (seen := quiet_watch(cluster_api, version))), [])

    assert {event["type"] for event in events} == {"BOOKMARK"}
    assert int(events[-1]["object"]["metadata"]["resourceVersion"]) >= int(version)


def quiet_watch(cluster_api: ClusterApi, version: str) -> list[Any]:
    """The events of ten seconds in which nothing happens."""
    query = {
        "watch": "true",
        "resourceVersion": version,
        "allowWatchBookmarks": "true",
        "timeoutSeconds": 10,
        "fieldSelector": "metadata.name=nobody",
    }
    path = f"/api/v1/namespaces/{cluster_api.namespace}/pods"
    response = cluster_api.client.call_api(
        path, "GET", query_params=query, auth_settings=["BearerToken"], _preload_content=False
    )
    return [yaml.safe_load(line) for line in response.data.splitlines()]


async def test_the_asynchronous_client_lists_watches_and_reads_logs(cluster_api: ClusterApi) -> None:
    """One list, one watch from its version, and a log read line by line: what a supervisor does."""
    client = await kubernetes_asyncio.config.new_client_from_config(str(cluster_api.kubeconfig))
    async with client:
        core = kubernetes_asyncio.client.CoreV1Api(client)
        version = (await core.list_namespaced_pod(cluster_api.namespace)).metadata.resource_version
        name = (await core.create_namespaced_pod(cluster_api.namespace, cluster_api.manifest())).metadata.name
        async with kubernetes_asyncio.watch.Watch() as watch:
            stream = watch.stream(
                core.list_namespaced_pod,
                cluster_api.namespace,
                resource_version=version,
                field_selector=f"metadata.name={name}",
                timeout_seconds=WAIT_S,
                allow_watch_bookmarks=True,
            )
            async for event in stream:
                if event["type"] != "BOOKMARK" and event["object"].status.phase == "Succeeded":
                    break
        async with kubernetes_asyncio.watch.Watch() as watch:
            options = {"name": name, "namespace": cluster_api.namespace, "follow": True}
            lines = [line async for line in watch.stream(core.read_namespaced_pod_log, **options)]

    assert [line.rstrip("\n") for line in lines] == ["hello"]


# --- changes


def gated(cluster_api: ClusterApi) -> str:
    manifest = cluster_api.manifest(schedulingGates=[{"name": "lockstep.test/gate"}])
    name = cluster_api.create(manifest).metadata.name
    cluster_api.seen(name, lambda pod: condition(pod, "PodScheduled") is not None, "judged")
    return str(name)


@pytest.mark.parametrize(
    ("media_type", "patch"),
    [
        pytest.param("application/merge-patch+json", {"metadata": {"labels": {"a": "b", "test": None}}}, id="merge"),
        pytest.param(
            "application/strategic-merge-patch+json",
            {"metadata": {"labels": {"a": "b", "test": None}}},
            id="strategic merge",
        ),
        pytest.param(
            "application/json-patch+json",
            [
                {"op": "add", "path": "/metadata/labels/a", "value": "b"},
                {"op": "remove", "path": "/metadata/labels/test"},
            ],
            id="JSON patch",
        ),
    ],
)
def test_every_patch_format_changes_labels(cluster_api: ClusterApi, media_type: str, patch: Any) -> None:
    name = gated(cluster_api)

    patched = cluster_api.core.patch_namespaced_pod(name, cluster_api.namespace, patch, _content_type=media_type)

    assert patched.metadata.labels == {"a": "b"}
    cluster_api.core.delete_namespaced_pod(name, cluster_api.namespace)


def test_a_strategic_patch_merges_conditions_by_type(cluster_api: ClusterApi) -> None:
    name = gated(cluster_api)
    patch = {"status": {"conditions": [{"type": "lockstep.test/seen", "status": "True"}]}}

    cluster_api.core.patch_namespaced_pod_status(
        name, cluster_api.namespace, patch, _content_type="application/strategic-merge-patch+json"
    )

    pod = cluster_api.read(name)
    assert condition(pod, "lockstep.test/seen").status == "True"
    assert condition(pod, "PodScheduled").reason == "SchedulingGated"
    cluster_api.core.delete_namespaced_pod(name, cluster_api.namespace)


def test_the_spec_of_a_pod_is_fixed(cluster_api: ClusterApi) -> None:
    name = gated(cluster_api)
    change = {"spec": {"containers": [{"name": "base", "env": [{"name": "NEW", "value": "1"}]}]}}

    with refused(422, "Invalid") as status:
        cluster_api.core.patch_namespaced_pod(name, cluster_api.namespace, change)

    assert status["details"]["causes"][0]["reason"] == "FieldValueForbidden"
    cluster_api.core.delete_namespaced_pod(name, cluster_api.namespace)


def test_an_update_of_an_old_version_is_a_conflict(cluster_api: ClusterApi) -> None:
    name = gated(cluster_api)
    old = cluster_api.read(name)
    cluster_api.core.patch_namespaced_pod(name, cluster_api.namespace, {"metadata": {"labels": {"a": "b"}}})

    with refused(409, "Conflict") as status:
        cluster_api.core.replace_namespaced_pod(name, cluster_api.namespace, old)

    assert "the object has been modified" in status["message"]
    current = cluster_api.read(name)
    current.metadata.labels["c"] = "d"
    assert cluster_api.core.replace_namespaced_pod(name, cluster_api.namespace, current).metadata.labels["c"] == "d"
    cluster_api.core.delete_namespaced_pod(name, cluster_api.namespace)


def test_a_dry_run_stores_nothing(cluster_api: ClusterApi) -> None:
    manifest = cluster_api.manifest()
    made = cluster_api.core.create_namespaced_pod(cluster_api.namespace, manifest, dry_run="All")

    assert made.metadata.uid
    with refused(404, "NotFound"):
        cluster_api.read(manifest["metadata"]["name"])


# --- refusals


def test_a_name_is_taken_once(cluster_api: ClusterApi) -> None:
    name = gated(cluster_api)

    with refused(409, "AlreadyExists") as status:
        cluster_api.create(cluster_api.manifest(name=name))

    assert status["details"] == {"name": name, "kind": "pods"}
    cluster_api.core.delete_namespaced_pod(name, cluster_api.namespace)


def test_a_generated_name_begins_as_asked(cluster_api: ClusterApi) -> None:
    manifest = cluster_api.manifest()
    manifest["metadata"] = {"generateName": "train-"}
    names = {cluster_api.create(manifest).metadata.name for _ in range(2)}

    assert len(names) == 2
    assert all(name.startswith("train-") and len(name) == len("train-") + 5 for name in names)


def test_what_is_not_there_is_not_found(cluster_api: ClusterApi) -> None:
    with refused(404, "NotFound") as status:
        cluster_api.read("absent")
    assert status["details"] == {"name": "absent", "kind": "pods"}
    assert status["message"] == 'pods "absent" not found'

    with refused(404, "NotFound") as status:
        cluster_api.core.create_namespaced_pod("no-such-namespace", cluster_api.manifest())
    assert status["details"]["kind"] == "namespaces"


def without(manifest: Any, *path: Any) -> Any:
    for key in path[:-1]:
        manifest = manifest[key]
    manifest.pop(path[-1], None)


def with_value(manifest: Any, value: Any, *path: Any) -> None:
    for key in path[:-1]:
        manifest = manifest[key]
    manifest[path[-1]] = value


@pytest.mark.parametrize(
    ("path", "value", "field", "reason"),
    [
        pytest.param(["metadata", "name"], "Not_DNS", "metadata.name", "Invalid", id="a name that DNS has not"),
        pytest.param(["metadata", "name"], "x" * 254, "metadata.name", "Invalid", id="a name of 254 characters"),
        pytest.param(["metadata", "name"], None, "metadata.name", "Required", id="no name"),
        pytest.param(["metadata", "labels"], {"a": "x" * 64}, "metadata.labels", "Invalid", id="a long label value"),
        pytest.param(
            ["metadata", "labels"], {"a": "b:c"}, "metadata.labels", "Invalid", id="a label value with a colon"
        ),
        pytest.param(["metadata", "labels"], {"a b": "c"}, "metadata.labels", "Invalid", id="a label key with a space"),
        pytest.param(
            ["metadata", "annotations"], {"a b": "c"}, "metadata.annotations", "Invalid", id="an annotation key"
        ),
        pytest.param(["spec", "containers"], [], "spec.containers", "Required", id="no containers"),
        pytest.param(
            ["spec", "containers", 0, "name"], None, "spec.containers[0].name", "Required", id="no container name"
        ),
        pytest.param(
            ["spec", "containers", 0, "name"], "A_b", "spec.containers[0].name", "Invalid", id="a container name"
        ),
        pytest.param(["spec", "containers", 0, "image"], None, "spec.containers[0].image", "Required", id="no image"),
        pytest.param(["spec", "restartPolicy"], "Maybe", "spec.restartPolicy", "NotSupported", id="a restart policy"),
        pytest.param(["spec", "hostname"], "a.b", "spec.hostname", "Invalid", id="a host name with a dot"),
        pytest.param(["spec", "subdomain"], "A", "spec.subdomain", "Invalid", id="a subdomain in capitals"),
        pytest.param(
            ["spec", "activeDeadlineSeconds"], 0, "spec.activeDeadlineSeconds", "Invalid", id="a deadline of nothing"
        ),
        pytest.param(
            ["spec", "containers", 0, "resources"],
            {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}},
            "spec.containers[0].resources.requests",
            "Invalid",
            id="a request over its limit",
        ),
        pytest.param(
            ["spec", "containers", 0, "env"],
            [{"value": "x"}],
            "spec.containers[0].env[0].name",
            "Required",
            id="no env name",
        ),
    ],
)
def test_a_pod_that_is_wrong_is_refused_by_field(
    cluster_api: ClusterApi, path: list[Any], value: Any, field: str, reason: str
) -> None:
    """422, with a cause that names the field."""
    manifest = cluster_api.manifest()
    if value is None:
        without(manifest, *path)
    else:
        with_value(manifest, value, *path)

    with refused(422, "Invalid") as status:
        cluster_api.create(manifest)

    causes = {(cause["field"], cause["reason"]) for cause in status["details"]["causes"]}
    assert (field, f"FieldValue{reason}") in causes
    assert status["details"]["kind"] == "Pod"


@pytest.mark.parametrize(
    ("path", "value"),
    [
        pytest.param(["spec", "activeDeadlineSeconds"], "ten", id="text for a number"),
        pytest.param(["metadata", "labels"], {"a": 1}, id="a number for text"),
        pytest.param(["spec", "containers"], {}, id="an object for a list"),
        pytest.param(["spec", "containers", 0, "resources"], {"limits": {"cpu": "much"}}, id="no quantity"),
    ],
)
def test_a_pod_of_the_wrong_types_is_a_bad_request(cluster_api: ClusterApi, path: list[Any], value: Any) -> None:
    manifest = cluster_api.manifest()
    with_value(manifest, value, *path)

    with refused(400, "BadRequest"):
        cluster_api.create(manifest)


def test_an_unknown_field_is_dropped_with_a_warning_and_refused_when_strict(cluster_api: ClusterApi) -> None:
    manifest = cluster_api.manifest(schedulingGates=[{"name": "lockstep.test/gate"}], colour="red")

    made, _, headers = cluster_api.core.create_namespaced_pod_with_http_info(cluster_api.namespace, manifest)
    assert 'unknown field \\"spec.colour\\"' in headers["Warning"]
    cluster_api.core.delete_namespaced_pod(made.metadata.name, cluster_api.namespace)

    with refused(400, "BadRequest") as status:
        cluster_api.core.create_namespaced_pod(cluster_api.namespace, manifest, field_validation="Strict")
    assert 'unknown field "spec.colour"' in status["message"]


def test_a_service_account_that_is_not_there_is_forbidden(cluster_api: ClusterApi) -> None:
    with refused(403, "Forbidden") as status:
        cluster_api.create(cluster_api.manifest(serviceAccountName="nobody"))

    assert 'serviceaccount "nobody" not found' in status["message"]


def test_a_request_without_a_token_is_unauthorized(cluster_api: ClusterApi) -> None:
    configuration = cluster_api.client.configuration
    pool = urllib3.PoolManager(ca_certs=configuration.ssl_ca_cert)

    headers = {"Authorization": f"Bearer {base64.b64encode(b'wrong').decode()}"}
    response = pool.request("GET", f"{configuration.host}/api/v1/pods", headers=headers)

    assert response.status == 401
    assert response.json()["reason"] == "Unauthorized"


# --- services, namespaces, and what a client asks first


def test_a_service_has_an_address_unless_it_is_headless(cluster_api: ClusterApi) -> None:
    core, namespace = cluster_api.core, cluster_api.namespace
    headless = core.create_namespaced_service(namespace, service(unique("headless")))
    plain = core.create_namespaced_service(namespace, service(unique("plain"), clusterIP=None))

    assert headless.spec.cluster_ip == "None"
    assert plain.spec.cluster_ip.count(".") == 3
    assert plain.spec.ports[0].target_port == 2222
    listed = [each.metadata.name for each in core.list_namespaced_service(namespace).items]
    assert {headless.metadata.name, plain.metadata.name} <= set(listed)
    for each in (headless, plain):
        core.delete_namespaced_service(each.metadata.name, namespace)


@pytest.mark.parametrize(
    ("name", "spec", "field"),
    [
        pytest.param("x" * 64, {}, "metadata.name", id="a name over 63 characters"),
        pytest.param("plain", {"clusterIP": None, "ports": []}, "spec.ports", id="no ports"),
        pytest.param("ports", {"ports": [{"port": 0}]}, "spec.ports[0].port", id="port 0"),
    ],
)
def test_a_service_that_is_wrong_is_refused_by_field(cluster_api: ClusterApi, name: str, spec: Any, field: str) -> None:
    with refused(422, "Invalid") as status:
        cluster_api.core.create_namespaced_service(cluster_api.namespace, service(name, **spec))

    assert field in {cause["field"] for cause in status["details"]["causes"]}


def test_a_deleted_namespace_takes_its_contents_along(cluster_api: ClusterApi) -> None:
    core, name = cluster_api.core, unique("short-lived")
    core.create_namespace({"metadata": {"name": name}})
    core.create_namespaced_service(name, service("gang"))

    core.delete_namespace(name)

    listed = core.list_namespace(field_selector=f"metadata.name={name}")
    options = {"field_selector": f"metadata.name={name}", "resource_version": listed.metadata.resource_version}
    if listed.items:
        for event in Watch().stream(core.list_namespace, timeout_seconds=WAIT_S, **options):
            if event["type"] == "DELETED":
                break
    with refused(404, "NotFound"):
        core.read_namespaced_service("gang", name)
    with refused(404, "NotFound"):
        core.read_namespace(name)


def test_a_client_can_ask_what_it_may_do(cluster_api: ClusterApi) -> None:
    attributes = {"namespace": cluster_api.namespace, "verb": "create", "resource": "pods"}
    reviews = AuthorizationV1Api(cluster_api.client)

    review = reviews.create_self_subject_access_review({"spec": {"resourceAttributes": attributes}})

    assert review.status.allowed


def test_a_client_can_ask_for_version_and_resources(cluster_api: ClusterApi) -> None:
    assert VersionApi(cluster_api.client).get_code().git_version.startswith("v1.")
    resources = {each.name: each for each in cluster_api.core.get_api_resources().resources}
    assert "watch" in resources["pods"].verbs
    assert {"pods/log", "pods/status", "pods/eviction", "services", "events", "namespaces"} <= resources.keys()


def waiting_reason(pod: Any) -> str | None:
    statuses = pod.status.container_statuses
    return statuses[0].state.waiting.reason if statuses and statuses[0].state.waiting else None
