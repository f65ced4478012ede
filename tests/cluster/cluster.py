"""Bringing one node up, taking it down, and saying how it is."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.cluster.bridge import bridge_exists, bridges, make_bridge, remove_bridge
from tests.cluster.certificates import Certificates, write_kubeconfig
from tests.cluster.component import recorded, running, start, stop
from tests.cluster.container_runtime import PAUSE_IMAGE, container_runtime, image_names, import_image, remove_containers
from tests.cluster.control_group import ControlGroup
from tests.cluster.control_plane import ControlPlane
from tests.cluster.debian_packages import install_missing_packages
from tests.cluster.domain_names import domain_names
from tests.cluster.kernel_settings import remember_kernel_settings, restore_kernel_settings
from tests.cluster.kubelet import kubelet
from tests.cluster.kueue import define_kueue, kueue, register_kueue_webhooks
from tests.cluster.kwok import define_kwok, kwok
from tests.cluster.layout import ClusterLayout, choose_layout, read_layout, write_layout
from tests.cluster.mount_namespace import NAME as MOUNT_NAMESPACE
from tests.cluster.mount_namespace import make_mount_points, mount_namespace, remove_mount_points
from tests.cluster.network_policies import NAME as NETWORK_POLICIES
from tests.cluster.network_policies import remove_rules
from tests.cluster.objects import kubectl
from tests.cluster.pause_image import write_pause_archive
from tests.cluster.programs import Programs, build_programs, cache_folder
from tests.cluster.progress import say, step
from tests.cluster.training_operator import define_training_operator, training_operator
from tests.cluster.waiting import wait_until

STATE = Path(__file__).parents[2] / ".lockstep-cluster"
KEPT_AFTER_DOWN = frozenset({"containerd", "logs", "lock"})  # images need not be imported again; logs may be wanted
NEEDED_TO_REMOVE_CONTAINERS = ("containerd", MOUNT_NAMESPACE)
COMPONENTS = (
    *(MOUNT_NAMESPACE, "containerd", "kubelet", "coredns"),
    *("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"),
    *("kueue", "training-operator", "kwok"),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class ClusterStatus:
    """What runs of a cluster; `layout` is None where none was brought up."""

    layout: ClusterLayout | None
    components: dict[str, int | None]

    @property
    def complete(self) -> bool:
        return self.layout is not None and all(self.components.values()) and bridge_exists(self.layout)


def up(state: Path = STATE) -> ClusterLayout:
    """Bring the cluster up, or complete what a crash left of it; nothing happens where all of it runs."""
    _require_root()
    with _locked(state):
        if (status := look(state)).complete:
            assert status.layout is not None
            return status.layout
        install_missing_packages(state / "apt.log")
        programs = build_programs(cache_folder())
        with step("cluster up"):
            return _bring_up(state, programs)


def down(state: Path = STATE) -> None:
    """End everything that `up` started and remove everything that it made, however it ended."""
    _require_root()
    with _locked(state):
        layout = read_layout(state)
        if layout is None:
            return
        with step("cluster down"):
            _take_down(layout)


def look(state: Path = STATE) -> ClusterStatus:
    layout = read_layout(state)
    if layout is None:
        return ClusterStatus(layout=None, components={})
    processes = {name: running(name, layout) for name in COMPONENTS}
    return ClusterStatus(
        layout=layout, components={name: each.pid if each else None for name, each in processes.items()}
    )


def _bring_up(state: Path, programs: Programs) -> ClusterLayout:
    known = read_layout(state)
    layout = known or choose_layout(state)
    write_layout(layout)
    plane = ControlPlane(
        layout=layout, programs=programs, certificates=Certificates(folder=layout.folder("certificates"))
    )
    _make_room(layout)
    _together(lambda: _start_control_plane(plane), lambda: _start_containers(plane, forget_old=known is None))
    _together(lambda: _start_node(plane), lambda: start(domain_names(plane), layout), lambda: _start_controllers(plane))
    say(f"KUBECONFIG={layout.kubeconfig}")
    return layout


def _make_room(layout: ClusterLayout) -> None:
    group = ControlGroup(name=layout.name)
    if running(MOUNT_NAMESPACE, layout) is None:
        group.end_all()  # what still runs has mounts that nothing can join any more
    group.make()
    remember_kernel_settings(layout)
    make_mount_points()
    make_bridge(layout)


def _start_control_plane(plane: ControlPlane) -> None:
    start(plane.etcd(), plane.layout)
    start(plane.api_server(), plane.layout)
    write_kubeconfig(
        plane.layout.kubeconfig,
        server=plane.layout.api_url,
        authority=plane.certificates.authority,
        pair=plane.administrator(),
    )
    start(plane.controller_manager(), plane.layout)
    start(plane.scheduler(), plane.layout)


def _start_containers(plane: ControlPlane, *, forget_old: bool) -> None:
    layout = plane.layout
    start(mount_namespace(layout), layout)
    start(container_runtime(layout), layout)
    if forget_old:
        remove_containers(layout)
    if PAUSE_IMAGE not in image_names(layout):
        import_image(layout, write_pause_archive(plane.programs, layout.folder("run") / "pause.tar"))


def _start_node(plane: ControlPlane) -> None:
    start(kubelet(plane), plane.layout)
    with step("node"):
        wait_until(lambda: _pods_can_run(plane), what="the node to be Ready", timeout_s=60.0)


def _pods_can_run(plane: ControlPlane) -> bool:
    """The node is ready, and the namespace `default` has the service account that its pods run as."""
    ready = 'jsonpath={.status.conditions[?(@.type=="Ready")].status}'
    node = ("get", "node", plane.layout.node_name, "--ignore-not-found", f"--output={ready}")
    account = ("get", "serviceaccount", "default", "--namespace=default", "--ignore-not-found", "--output=name")
    answers = [kubectl(plane.layout, plane.programs, *asked).stdout for asked in (node, account)]
    return answers[0] == "True" and bool(answers[1])


def _start_controllers(plane: ControlPlane) -> None:
    with step("definitions of Kueue, training operator and kwok"):
        _together(lambda: define_kueue(plane), lambda: define_training_operator(plane), lambda: define_kwok(plane))
    controllers = (kueue(plane), training_operator(plane), kwok(plane))
    _together(*(partial(start, controller, plane.layout) for controller in controllers))
    register_kueue_webhooks(plane)


def _take_down(layout: ClusterLayout) -> None:
    controllers = [name for name in reversed(recorded(layout)) if name not in NEEDED_TO_REMOVE_CONTAINERS]
    for name in controllers:
        stop(name, layout)
    if NETWORK_POLICIES in controllers:
        remove_rules()
    if running("containerd", layout) is not None:
        remove_containers(layout)
    for name in NEEDED_TO_REMOVE_CONTAINERS:
        stop(name, layout)
    group = ControlGroup(name=layout.name)
    group.end_all()
    group.remove()
    remove_bridge(layout)
    if not bridges():
        remove_mount_points()
    restore_kernel_settings(layout)
    _forget(layout.state)


def _forget(state: Path) -> None:
    """The layout goes last: as long as it is there, `down` has something to do."""
    for entry in sorted(state.iterdir(), key=lambda entry: entry.name == "layout.json"):
        if entry.name in KEPT_AFTER_DOWN:
            continue
        if entry.is_dir():
            shutil.rmtree(entry)
        else:
            entry.unlink()


def _together(*steps: Callable[[], None]) -> None:
    """Run all at once; the first failure is raised once all have ended."""
    with ThreadPoolExecutor(len(steps)) as pool:
        for running_step in [pool.submit(each) for each in steps]:
            running_step.result()


def _require_root() -> None:
    if os.geteuid() != 0:
        raise SystemExit("the cluster needs root for containers, mounts and a bridge; or set KUBECONFIG to a cluster")


@contextmanager
def _locked(state: Path) -> Iterator[None]:
    """One `up` or `down` at a time."""
    state.mkdir(parents=True, exist_ok=True)
    with (state / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
