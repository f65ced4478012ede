"""The node itself: what `up` and `down` promise about the machine they run on. Needs root, and a few minutes."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.cluster.cluster import COMPONENTS, down, look, up
from tests.cluster.control_group import ControlGroup
from tests.cluster.layout import ClusterLayout
from tests.cluster.machine_snapshot import look_at_machine
from tests.cluster.objects import kubectl
from tests.cluster.programs import KUBERNETES_VERSION, Programs, cache_folder

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="bringing a node up needs root"),
    pytest.mark.skipif(look().layout is None, reason="the cluster under test is not one that was brought up here"),
]
PROGRAMS = Programs(cache=cache_folder())


@pytest.fixture
def state() -> Iterator[Path]:
    yield from _state()


@pytest.fixture(scope="module")
def shared_state() -> Iterator[Path]:
    """For tests that leave the node running: each finds it, or brings it up."""
    yield from _state()


def _state() -> Iterator[Path]:
    """A folder with a short name: pytest's own are too long for the node's sockets."""
    with tempfile.TemporaryDirectory(prefix="up-") as folder:
        state = Path(folder) / "state"
        yield state
        down(state)
        shutil.rmtree(state)


def processes(layout: ClusterLayout) -> set[psutil.Process]:
    return {psutil.Process(process) for process in ControlGroup(name=layout.name).processes()}


def node(layout: ClusterLayout) -> str:
    """ "<Ready> <kubelet's version>" as the API tells it."""
    ready = '{.items[*].status.conditions[?(@.type=="Ready")].status} {.items[*].status.nodeInfo.kubeletVersion}'
    return kubectl(layout, PROGRAMS, "get", "nodes", f"--output=jsonpath={ready}").stdout


def run_pod(layout: ClusterLayout, name: str) -> None:
    """A pod of the pause image, waited for until it runs."""
    kubectl(layout, PROGRAMS, "run", name, "--image=localhost/lockstep/pause:1", "--image-pull-policy=Never")
    kubectl(layout, PROGRAMS, "wait", f"pod/{name}", "--for=condition=Ready", "--timeout=60s")


def test_two_rounds_leave_the_machine_as_it_was(state: Path) -> None:
    """Processes, mounts, interfaces, routes, packet filter, kernel settings and folders: nothing stays.

    In the second round everything was killed before `down` came.
    """
    before = look_at_machine()
    for killed in (False, True):
        layout = up(state)
        assert node(layout) == f"True {KUBERNETES_VERSION}"
        run_pod(layout, "left-running")
        seen = processes(layout)
        assert len(seen) > len(COMPONENTS)
        if killed:
            ControlGroup(name=layout.name).end_all()
        down(state)
        assert psutil.wait_procs(seen, timeout=30)[1] == []  # ended at once; collected by the machine's first process
        assert before.differences(look_at_machine()) == {}


def test_a_second_up_starts_nothing(shared_state: Path) -> None:
    up(shared_state)
    first = look(shared_state)
    up(shared_state)
    assert look(shared_state) == first


def test_up_after_a_crash_recovers(shared_state: Path) -> None:
    """Whatever was killed comes back, and what the cluster knew is still there."""
    layout = up(shared_state)
    run_pod(layout, "before-the-crash")
    for name in ("kube-apiserver", "kubelet", "containerd"):
        process = look(shared_state).components[name]
        assert process is not None
        os.kill(process, signal.SIGKILL)
        psutil.wait_procs([psutil.Process(process)] if psutil.pid_exists(process) else [], timeout=10)
    assert not look(shared_state).complete
    up(shared_state)
    assert look(shared_state).complete
    kubectl(layout, PROGRAMS, "wait", "pod/before-the-crash", "--for=condition=Ready", "--timeout=60s")
    run_pod(layout, "after-the-crash")


def test_up_after_everything_was_killed_recovers(shared_state: Path) -> None:
    """As after a power cut: no process is left, the disk is."""
    layout = up(shared_state)
    run_pod(layout, "before-the-power-cut")
    ControlGroup(name=layout.name).end_all()
    up(shared_state)
    kubectl(layout, PROGRAMS, "wait", "pod/before-the-power-cut", "--for=condition=Ready", "--timeout=90s")
