"""The stack comes up whole, stays as it is, heals after crashes, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from lockstep.local import service_process
from lockstep.local.layout import PROJECT_ROOT
from lockstep.local.service_start import StackFailed
from lockstep.local.stack import Stack
from lockstep.local.stack_state import StackState

SERVICES = {
    *("storage", "gateway", "kubernetes", "mlflow"),
    *("api-server", "scheduler", "dag-processor", "triggerer"),
}

USING_THE_STACK = """
import os
from google.cloud import storage
from kubernetes import client, config
from mlflow import MlflowClient
from airflow.configuration import conf
from airflow.sdk import Connection
assert [bucket.name for bucket in storage.Client().list_buckets()] == ["lockstep"]
config.load_kube_config(os.environ["KUBECONFIG"])
assert client.CoreV1Api().list_namespaced_pod("default").items == []
assert MlflowClient().search_experiments()
assert conf.get("lockstep", "run_root").startswith("gs://lockstep/")
assert Connection.get("kubernetes_default").extra_dejson["namespace"] == "default"
print("all reached")
"""


def pids(stack: Stack) -> dict[str, int | None]:
    return {service.name: service.pid for service in stack.status()}


def state_of(stack: Stack) -> StackState:
    return StackState.read(stack.layout.state_file)


def kill(stack: Stack, name: str) -> None:
    """End one service the hard way, and wait until it is gone."""
    process = state_of(stack).processes[name]
    os.kill(process.pid, signal.SIGKILL)
    wait_until(lambda: process.living() is None)


def wait_until(met: Callable[[], bool], timeout_s: float = 60) -> None:
    deadline = time.monotonic() + timeout_s
    while not met():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_all_services_are_ready_after_up(stack):
    assert {service.name: service.objection for service in stack.status()} == dict.fromkeys(SERVICES)


def test_a_second_up_changes_nothing(stack):
    before = pids(stack)
    stack.up()
    assert pids(stack) == before


def test_everything_listens_on_loopback_only(stack):
    """A stack without passwords must not be reachable from outside the machine."""
    listening = {
        connection.laddr.ip
        for process in service_process.marked(stack.layout.state)
        for connection in process.net_connections(kind="inet")
        if connection.status == psutil.CONN_LISTEN
    }
    assert listening == {"127.0.0.1"}


@pytest.mark.parametrize("secret", ["keys.json", "kubeconfig", "certificates/ca.key"])
def test_secrets_are_readable_by_their_owner_only(stack, secret):
    assert (stack.layout.state / secret).stat().st_mode & 0o077 == 0


def test_a_process_with_the_stack_s_environment_reaches_all_of_it(stack):
    """What `dag.test()` needs: storage, cluster, registry, Airflow's settings and its connection."""
    environment = {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], **stack.environment()}
    ended = subprocess.run(
        [sys.executable, "-c", USING_THE_STACK], env=environment, capture_output=True, text=True, timeout=120
    )
    assert "all reached" in ended.stdout, ended.stderr[-3000:]


def test_all_of_it_together_stays_far_below_what_the_machine_has(stack):
    assert 0 < stack.memory_bytes() < 4 * 2**30


def test_up_starts_again_what_has_died_and_nothing_else(stack):
    before = pids(stack)
    kill(stack, "gateway")
    assert {service.name for service in stack.status() if service.objection} == {"gateway"}

    stack.up()

    after = pids(stack)
    assert {name for name in before if after[name] != before[name]} == {"gateway"}


def test_a_pod_does_not_outlive_a_cluster_that_was_killed(stack):
    """The pod's process is nobody's child then; the next `up` ends it."""
    start_pod(stack, "orphan")
    pod = next(process for process in service_process.marked(stack.layout.state) if "orphaned" in process.cmdline()[-1])

    kill(stack, "kubernetes")
    assert service_process.is_alive(pod)
    stack.up()

    assert not service_process.is_alive(pod)


def start_pod(stack: Stack, name: str) -> None:
    """Start a pod that waits, and return once it runs."""
    from kubernetes import client, config

    api = client.CoreV1Api(config.new_client_from_config(str(stack.layout.kubeconfig)))
    code = "import threading; threading.Event().wait()  # orphaned"
    container = {"name": "main", "image": "lockstep/trainer:local", "command": ["python", "-c", code]}
    body = {"metadata": {"name": name}, "spec": {"restartPolicy": "Never", "containers": [container]}}
    api.create_namespaced_pod("default", body)
    wait_until(lambda: api.read_namespaced_pod(name, "default").status.phase == "Running")
    api.api_client.close()


def test_up_after_the_scheduler_died_waits_for_the_new_one_s_own_heartbeat(stack):
    """The dead one's last heartbeat still counts as healthy with Airflow for half a minute."""
    kill(stack, "scheduler")
    stack.up()
    assert all(service.objection is None for service in stack.status())


@pytest.mark.parametrize("torn", [pytest.param(False, id="state kept"), pytest.param(True, id="state file torn")])
def test_up_that_is_killed_halfway_leaves_nothing_that_down_does_not_find(state_folder, torn):
    """What the state file does not tell, the mark in the processes' environment does."""
    command = [sys.executable, "-m", "lockstep.local", "up", "--without-airflow", "--state", str(state_folder)]
    environment = {**os.environ, "PYTHONPATH": str(PROJECT_ROOT / "plugins")}
    up = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    assert up.stdout is not None
    next(line for line in up.stdout if "preparing Airflow's database" in line)
    up.kill()
    up.wait()
    up.stdout.close()
    assert list(service_process.marked(state_folder))
    if torn:
        (state_folder / "stack.json").write_text('{"schema": 1, "ports"')

    Stack(state_folder).down()

    assert list(service_process.marked(state_folder)) == []


def test_a_service_that_cannot_start_is_shown_with_the_end_of_its_log(state_folder):
    stack = Stack(state_folder, with_airflow=False)
    stack.layout.storage.write_text("a file where the storage's folder should be")

    with pytest.raises(StackFailed) as failure:
        stack.up()

    assert str(failure.value).startswith("storage ended while it was starting\n  | ")
    assert str(stack.layout.log("storage")) in str(failure.value)
    stack.down()


def test_status_before_the_first_up_shows_nothing(tmp_path):
    assert Stack(tmp_path).status() == []


def test_down_without_up_is_fine(tmp_path):
    Stack(tmp_path).down()


@pytest.mark.parametrize(
    "content",
    [
        pytest.param("", id="empty"),
        pytest.param('{"schema": 1}', id="keys are missing"),
        pytest.param('{"schema": 99, "ports": {}, "processes": {}, "database_version": null}', id="a later version's"),
        pytest.param('{"schema": 1, "ports": {}, "processes": {"a": {"pid": 1}}, "database_version": null}', id="torn"),
    ],
)
def test_a_state_that_cannot_be_read_counts_as_none(tmp_path: Path, content: str):
    file = tmp_path / "stack.json"
    file.write_text(content)
    assert StackState.read(file) == StackState()


def test_a_port_taken_while_the_stack_was_down_is_replaced(tmp_path):
    """The service moves, and whoever is told its address is restarted, because its command has changed."""
    stack = Stack(tmp_path, with_airflow=False)
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        StackState(ports={"storage": other.getsockname()[1]}).write(stack.layout.state_file)
        assert stack._remembered().ports["storage"] != other.getsockname()[1]
