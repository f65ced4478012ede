"""The server and its pods end together, whatever ends them; what an earlier server left is found and ended."""

from __future__ import annotations

import json
import ssl
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
import yaml
from kubernetes.client import ApiException

from tests.contract.cluster_api import ClusterApi, api_of, container_state
from tests.local.kube.running_server import IMAGE, RunningServer, server_environment, start_server

# A process with a child in the same session, and another that has left it.
FAMILY = """
import subprocess, sys, time
sleep = [sys.executable, '-c', 'import time; time.sleep(600)']
children = [subprocess.Popen(sleep), subprocess.Popen(sleep, start_new_session=True)]
print('pids', *(child.pid for child in children), flush=True)
time.sleep(600)
"""


def family_of(api: ClusterApi, name: str) -> list[psutil.Process]:
    """The processes of a pod that runs FAMILY, found through the children that it names in its log."""
    api.logged(name, "pids")
    children = [psutil.Process(int(pid)) for pid in api.log(name).split()[1:]]
    return [*children, psutil.Process(children[0].ppid())]


def credentials(server: RunningServer) -> tuple[str, str]:
    config = yaml.safe_load(server.kubeconfig.read_text())
    return config["users"][0]["user"]["token"], config["clusters"][0]["cluster"]["certificate-authority-data"]


def assert_ended(processes: list[psutil.Process]) -> None:
    _, left = psutil.wait_procs(processes, timeout=20)
    assert not left


@pytest.fixture
def start(tmp_path: Path) -> Callable[[], RunningServer]:
    return lambda: start_server(tmp_path)


def test_pods_end_with_the_server(start: Callable[[], RunningServer]) -> None:
    """SIGTERM: no process of any pod is left, a watcher has learned why, and the exit code is 0."""
    server = start()
    with api_of(server.kubeconfig, IMAGE) as api:
        name = api.create(api.manifest(FAMILY)).metadata.name
        processes = family_of(api, name)
        seen = api.watch(name)
        next(seen)
        server.process.terminate()
        last = [event["object"] for event in seen][-1]

    assert server.process.wait(30) == 0
    assert_ended(processes)
    assert (last.status.phase, last.status.reason) == ("Failed", "Terminated")


def test_a_server_that_was_killed_leaves_no_process_to_the_next(start: Callable[[], RunningServer]) -> None:
    """The next server on the state folder ends the orphans and says that their pods failed."""
    first = start()
    with api_of(first.kubeconfig, IMAGE) as api:
        lost = api.create(api.manifest(FAMILY)).metadata
        done = api.run("print('kept')").metadata
        processes = family_of(api, lost.name)
        version = api.version()
    before = credentials(first)
    first.crash()
    assert all(process.is_running() for process in processes)

    second = start()
    assert_ended(processes)
    assert credentials(second) == before, "who has read the kubeconfig need not read it again"
    with api_of(second.kubeconfig, IMAGE) as api:
        pod = api.ended(lost.name)
        terminated = container_state(pod).terminated
        assert pod.metadata.uid == lost.uid
        assert (pod.status.phase, terminated.exit_code, terminated.reason) == ("Failed", 137, "ContainerStatusUnknown")
        assert api.log(lost.name).startswith("pids")
        assert (api.read(done.name).status.phase, api.log(done.name)) == ("Succeeded", "kept\n")
        with pytest.raises(ApiException) as caught:
            next(api.watch(lost.name, resource_version=version))
        assert caught.value.status == 410
    assert second.end() == 0


def test_leftovers_can_be_ended_without_a_server(start: Callable[[], RunningServer]) -> None:
    """What `down` does after a crash."""
    from lockstep.local.kube.process_ledger import end_leftover_processes

    server = start()
    with api_of(server.kubeconfig, IMAGE) as api:
        processes = family_of(api, api.create(api.manifest(FAMILY)).metadata.name)
    server.crash()

    assert end_leftover_processes(server.state) == len(processes)

    assert_ended(processes)
    assert end_leftover_processes(server.state) == 0


def test_a_deleted_pod_takes_even_those_along_that_left_its_session(kube: ClusterApi) -> None:
    name = kube.create(kube.manifest(FAMILY)).metadata.name
    processes = family_of(kube, name)

    kube.core.delete_namespaced_pod(name, "default", grace_period_seconds=1)
    kube.gone(name)

    assert_ended(processes)


def test_a_state_folder_has_one_server(kube_server: RunningServer, tmp_path: Path) -> None:
    second = command(tmp_path, kube_server.state, kube_server.images)

    assert second.returncode == 1
    assert "another server runs on this state folder" in second.stderr


def test_images_that_cannot_be_read_are_refused_at_the_start(tmp_path: Path) -> None:
    images = tmp_path / "images.json"
    images.write_text("{")

    ended = command(tmp_path, tmp_path / "state", images)

    assert ended.returncode == 1
    assert str(images) in ended.stderr
    assert "Traceback" not in ended.stderr


def command(folder: Path, state: Path, images: Path) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "lockstep.local.kube", "--state", str(state), "--images", str(images)]
    words += ["--kubeconfig", str(folder / "second")]
    return subprocess.run(words, capture_output=True, text=True, timeout=60, env=server_environment(), check=False)


def test_the_kubeconfig_is_private_and_leads_to_loopback(kube_server: RunningServer) -> None:
    assert kube_server.kubeconfig.stat().st_mode & 0o077 == 0
    assert yaml.safe_load(kube_server.kubeconfig.read_text())["clusters"][0]["cluster"]["server"].startswith(
        "https://127.0.0.1:"
    )
    connections = psutil.Process(kube_server.process.pid).net_connections("tcp")
    assert {each.laddr.ip for each in connections if each.status == psutil.CONN_LISTEN} == {"127.0.0.1"}


def test_health_and_version_need_no_token(kube_server: RunningServer) -> None:
    cluster = yaml.safe_load(kube_server.kubeconfig.read_text())["clusters"][0]["cluster"]
    context = ssl.create_default_context(cafile=str(kube_server.state / "ca.pem"))

    with urllib.request.urlopen(f"{cluster['server']}/version", context=context) as response:
        assert json.load(response)["major"] == "1"
