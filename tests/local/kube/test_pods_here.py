"""What is particular to pods that are local processes: the image's environment, the machine's size, the limits."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from kubernetes.client import ApiException

from tests.contract.cluster_api import ClusterApi, api_of, condition, container_state, refused
from tests.local.kube.running_server import IMAGE, RunningServer

SLEEPER = "import time; print('ready'); time.sleep(600)"


def test_a_container_has_the_images_environment_and_its_own_over_it(kube: ClusterApi) -> None:
    code = "import os; print(os.environ['FROM_IMAGE'], os.environ['PATH'].endswith(':/usr/bin:/bin'))"
    inherited = kube.run(code)
    overridden = kube.run(code, container={"env": [{"name": "FROM_IMAGE", "value": "no"}]})

    assert kube.log(inherited.metadata.name).strip() == "yes True"
    assert kube.log(overridden.metadata.name).strip() == "no True"


def test_a_container_has_nothing_else_of_the_servers_environment(kube: ClusterApi) -> None:
    names = kube.log(kube.run("import os; print(*os.environ)").metadata.name).split()

    passed_on = {"HOME", "LANG", "TMPDIR"} & os.environ.keys()
    allowed = {"PATH", "HOSTNAME", "FROM_IMAGE", "LOCKSTEP_TERMINATION_LOG", "LC_CTYPE"}
    assert passed_on <= set(names) <= passed_on | allowed


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        pytest.param({"restartPolicy": "Always"}, "spec.restartPolicy", id="restarts"),
        pytest.param({"volumes": [{"name": "v", "emptyDir": {}}]}, "spec.volumes", id="volumes"),
        pytest.param({"initContainers": [{"name": "i", "image": "x"}]}, "spec.initContainers", id="init containers"),
        pytest.param(
            {"containers": [{"name": "a", "image": "x"}, {"name": "b", "image": "x"}]},
            "spec.containers",
            id="a second container",
        ),
        pytest.param(
            {"containers": [{"name": "a", "image": "x", "readinessProbe": {"tcpSocket": {"port": 1}}}]},
            "spec.containers[0].readinessProbe",
            id="probes",
        ),
    ],
)
def test_what_cannot_run_here_is_refused_by_field(kube: ClusterApi, spec: Any, field: str) -> None:
    """Nothing is silently ignored."""
    with refused(422, "Invalid") as status:
        kube.create(kube.manifest(**spec))

    assert field in {cause["field"] for cause in status["details"]["causes"]}
    assert "use a real cluster" in status["message"]


def test_requests_add_up_and_the_next_pod_waits_for_room(kube: ClusterApi) -> None:
    """As on a node: what is asked for is taken, until its pod has ended."""
    cpus = os.cpu_count() or 1
    container = {"resources": {"requests": {"cpu": str(cpus)}}}
    first = kube.create(kube.manifest(SLEEPER, container=container)).metadata.name
    kube.running(first)
    second = kube.create(kube.manifest(container=container)).metadata.name
    waiting = kube.seen(second, lambda pod: condition(pod, "PodScheduled") is not None, "judged")
    assert condition(waiting, "PodScheduled").reason == "Unschedulable"

    kube.core.delete_namespaced_pod(first, "default", grace_period_seconds=1)

    assert kube.ended(second).status.phase == "Succeeded"


def test_a_pod_that_keeps_within_its_limit_is_left_alone(kube: ClusterApi) -> None:
    code = "import time; hoard = bytearray(64 << 20); hoard[::4096] = b'x' * 16384; time.sleep(1)"

    assert kube.run(code, container={"resources": {"limits": {"memory": "256Mi"}}}).status.phase == "Succeeded"


def test_many_pods_run_at_once(kube: ClusterApi) -> None:
    """Fifty, created together, each seen to its own end."""
    with ThreadPoolExecutor(8) as pool:
        names = list(pool.map(lambda number: create(kube.kubeconfig, f"raise SystemExit({number})"), range(50)))

    codes = [container_state(kube.ended(name)).terminated.exit_code for name in names]

    assert codes == list(range(50))


def create(kubeconfig: Any, code: str) -> str:
    with api_of(kubeconfig, IMAGE) as api:
        return str(api.create(api.manifest(code)).metadata.name)


def test_a_loud_pod_does_not_keep_others_waiting(kube: ClusterApi) -> None:
    """While one pod prints 64 MB and somebody reads them, other requests are answered promptly."""
    code = "line = 'x' * 1023\nfor _ in range(64):\n    print('\\n'.join([line] * 1024))"
    name = kube.create(kube.manifest(code)).metadata.name
    kube.seen(name, lambda pod: pod.status.phase != "Pending", "started")

    slowest_s = 0.0
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(read_whole_log, kube.kubeconfig, name)
        while not reading.done():
            asked = time.monotonic()
            kube.core.list_namespace()
            slowest_s = max(slowest_s, time.monotonic() - asked)

    assert reading.result() == 64 * 1024 * 1024
    assert slowest_s < 2.0


def read_whole_log(kubeconfig: Any, name: str) -> int:
    with api_of(kubeconfig, IMAGE) as api:
        response = api.core.read_namespaced_pod_log(name, "default", follow=True, _preload_content=False)
        return sum(len(piece) for piece in response.stream(1 << 16))


def test_a_deleted_pod_leaves_no_file_behind(kube_server: RunningServer, kube: ClusterApi) -> None:
    """Neither its log nor its object."""
    pod = kube.run()
    folder = kube_server.state / "pods" / pod.metadata.uid
    assert (folder / "log").exists()
    version = kube.version()

    kube.core.delete_namespaced_pod(pod.metadata.name, "default")
    kube.last_state(pod.metadata.name, since=version)
    kube.run()  # whatever the deletion set off is done by then

    assert not folder.exists()
    assert not (kube_server.state / "objects" / "pods" / "default" / f"{pod.metadata.name}.json").exists()


def test_a_version_too_old_is_expired(kube: ClusterApi) -> None:
    """Whoever watches from there has to list again: an event with 410 Gone. A real cluster forgets by its load."""
    with pytest.raises(ApiException) as caught:
        next(kube.watch("anybody", resource_version="1"))

    assert caught.value.status == 410
