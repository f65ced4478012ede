"""The node itself: what `up` and `down` promise about the machine they run on. Needs root, and a few minutes."""

from __future__ import annotations

import os
import shutil
import signal
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
def state(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "state"
    down(tmp_path / "state")
    shutil.rmtree(tmp_path / "state")


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
    """Processes, mounts, interfaces, routes, packet filter, kernel settings and folders: nothing stays."""
    before = look_at_machine()
    for _ in range(2):
        layout = up(state)
        assert node(layout) == f"True {KUBERNETES_VERSION}"
        run_pod(layout, "left-running")
        seen = processes(layout)
        assert len(seen) > len(COMPONENTS)
        down(state)
        assert psutil.wait_procs(seen, timeout=30)[1] == []  # ended at once; collected by the machine's first process
        assert before.differences(look_at_machine()) == {}


def test_a_second_up_starts_nothing(state: Path) -> None:
    up(state)
    first = look(state)
    up(state)
    assert look(state) == first


def test_up_after_a_crash_recovers(state: Path) -> None:
    """Whatever was killed comes back, and what the cluster knew is still there."""
    layout = up(state)
    run_pod(layout, "before")
    for name in ("kube-apiserver", "kubelet", "containerd"):
        process = look(state).components[name]
        assert process is not None
        os.kill(process, signal.SIGKILL)
        psutil.wait_procs([psutil.Process(process)] if psutil.pid_exists(process) else [], timeout=10)
    assert not look(state).complete
    up(state)
    assert look(state).complete
    kubectl(layout, PROGRAMS, "wait", "pod/before", "--for=condition=Ready", "--timeout=60s")
    run_pod(layout, "after")


def test_up_after_everything_was_killed_recovers(state: Path) -> None:
    """As after a power cut: no process is left, the disk is."""
    layout = up(state)
    run_pod(layout, "before")
    ControlGroup(name=layout.name).end_all()
    up(state)
    kubectl(layout, PROGRAMS, "wait", "pod/before", "--for=condition=Ready", "--timeout=90s")


def test_down_after_everything_was_killed_leaves_nothing(state: Path) -> None:
    before = look_at_machine()
    layout = up(state)
    run_pod(layout, "before")
    ControlGroup(name=layout.name).end_all()
    down(state)
    assert before.differences(look_at_machine()) == {}
