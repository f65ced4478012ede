"""The node: binds pods to itself, runs a worker for each, and finishes their deletion.

It learns of pods the way a real one does, from a watch, and owns their logs.
"""

from __future__ import annotations

import asyncio
import logging
import os
import platform
import shutil
import socket
from collections.abc import Callable
from functools import partial
from pathlib import Path

import psutil

from lockstep.local.kube.api_object import (
    Json,
    generation_of,
    is_terminating,
    name_of,
    namespace_of,
    new_uid,
    timestamp,
    uid_of,
)
from lockstep.local.kube.container_log import ContainerLog
from lockstep.local.kube.event_recorder import EventRecorder
from lockstep.local.kube.memory_guard import MemoryGuard
from lockstep.local.kube.object_store import Change, ObjectStore
from lockstep.local.kube.pod_status import (
    ADDRESS,
    Ended,
    condition_of,
    ended_status,
    failed_status,
    is_terminal,
    with_condition,
)
from lockstep.local.kube.pod_worker import PodWorker, log_file
from lockstep.local.kube.process_ledger import ProcessLedger, end_leftover_processes
from lockstep.local.kube.registry import DeleteOptions, Registry
from lockstep.local.kube.resource import NODES, PODS
from lockstep.local.kube.scheduler import Fits, Gated, Unschedulable, verdict

log = logging.getLogger(__name__)

NODE_NAME = "lockstep-local"
_FORCED_GRACE_S = 1.0
_SHUTDOWN_GRACE_S = 5.0
_KILLED = 137


class Kubelet:
    """Runs the pods of a store on this machine; `state` is the folder for logs and the process ledger."""

    def __init__(self, registry: Registry, state: Path, images_file: Path, version: str) -> None:
        self._registry = registry
        self._store: ObjectStore = registry.store
        self._state = state
        self._images_file = images_file
        self._ledger = ProcessLedger(state)
        self._guard = MemoryGuard()
        self._events = EventRecorder(self._store, "kubelet", NODE_NAME)
        self._scheduled = EventRecorder(self._store, "default-scheduler", NODE_NAME)
        self._workers: dict[str, PodWorker] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._node = self._store.create(NODES, node_object(version))
        self._ending = False

    async def run(self) -> None:
        """Follow the pods until the store closes its watches."""
        watch = self._store.watch()
        self._recover()
        self._schedule()
        async for change in watch:
            if change.plural == PODS.plural:
                self._observe(change)

    async def stop(self) -> None:
        """End every pod, as a node that shuts down does."""
        self._ending = True
        message = "Pod was terminated in response to imminent node shutdown."
        for worker in self._workers.values():
            worker.stop(_SHUTDOWN_GRACE_S, "Terminated", message)
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def log(self, pod: Json) -> ContainerLog | None:
        """Return the pod's log, or None if it never had a container."""
        if (worker := self._workers.get(uid_of(pod))) is not None:
            return worker.log
        file = log_file(self._folder(pod))
        return ContainerLog(file, is_open=False) if file.exists() else None

    def _observe(self, change: Change) -> None:
        if change.after is None:
            self._forget(change.item)
        elif is_terminating(change.after) and (worker := self._workers.get(uid_of(change.after))) is not None:
            worker.stop(change.after["metadata"]["deletionGracePeriodSeconds"])
        self._schedule()

    def _forget(self, pod: Json) -> None:
        if (worker := self._workers.get(uid_of(pod))) is not None:
            worker.stop(_FORCED_GRACE_S)
        else:
            shutil.rmtree(self._folder(pod), ignore_errors=True)

    def _schedule(self) -> None:
        """Bind what fits, oldest first; say of the others why they do not."""
        pods = self._store.list(PODS)
        bound = [pod for pod in pods if "nodeName" in pod["spec"]]
        unbound = [pod for pod in pods if "nodeName" not in pod["spec"] and not is_terminating(pod)]
        for pod in sorted(unbound, key=lambda each: int(each["metadata"]["resourceVersion"])):
            match verdict(pod, self._node, bound):
                case Fits() if not self._ending:
                    bound.append(self._bind(pod))
                case Gated(message=message):
                    self._leave_pending(pod, "SchedulingGated", message)
                case Unschedulable(message=message) if self._leave_pending(pod, "Unschedulable", message):
                    self._scheduled.warning(pod, "FailedScheduling", message)

    def _leave_pending(self, pod: Json, reason: str, message: str) -> bool:
        before = condition_of(pod["status"], "PodScheduled") or {}
        if (before.get("reason"), before.get("message")) == (reason, message):
            return False
        # A gate is found by the API server itself, which tells no generation.
        observed = None if reason == "SchedulingGated" else generation_of(pod)
        status = with_condition(pod["status"], "PodScheduled", False, reason, message, observed=observed)
        self._store.replace(PODS, pod | {"status": status})
        return True

    def _bind(self, pod: Json) -> Json:
        status = with_condition(pod["status"], "PodScheduled", True)
        bound = self._store.replace(PODS, pod | {"spec": pod["spec"] | {"nodeName": NODE_NAME}, "status": status})
        where = f"{namespace_of(pod)}/{name_of(pod)} to {NODE_NAME}"
        self._scheduled.normal(bound, "Scheduled", f"Successfully assigned {where}")
        self._start(bound)
        return bound

    def _start(self, pod: Json) -> None:
        uid = uid_of(pod)
        self._workers[uid] = PodWorker(
            pod,
            folder=self._folder(pod),
            images_file=self._images_file,
            report=partial(self._report, pod),
            events=self._events,
            ledger=self._ledger,
            guard=self._guard,
        )
        self._tasks[uid] = asyncio.create_task(self._work(pod))

    async def _work(self, pod: Json) -> None:
        uid = uid_of(pod)
        try:
            await self._workers[uid].run()
        except Exception as error:
            log.exception("The worker of pod %s/%s broke", namespace_of(pod), name_of(pod))
            broken = f"{type(error).__name__}: {error}"
            self._report(pod, lambda current: failed_status(current, "InternalError", broken))
        finally:
            del self._workers[uid], self._tasks[uid]
            self._settle(pod)

    def _settle(self, pod: Json) -> None:
        """Take the pod away if somebody asked for that; its log goes with it."""
        current = self._current(pod)
        if current is None:
            shutil.rmtree(self._folder(pod), ignore_errors=True)
        elif is_terminating(current):
            self._registry.delete(PODS, namespace_of(pod), name_of(pod), DeleteOptions(grace_s=0, uid=uid_of(pod)))

    def _current(self, pod: Json) -> Json | None:
        found = self._store.find(PODS, namespace_of(pod), name_of(pod))
        return found if found is not None and uid_of(found) == uid_of(pod) else None

    def _report(self, pod: Json, status: Callable[[Json], Json]) -> None:
        if (current := self._current(pod)) is not None:
            self._store.replace(PODS, current | {"status": status(current)})

    def _recover(self) -> None:
        """End what an earlier server left running, and say of its pods that they were lost."""
        end_leftover_processes(self._state)
        lost = Ended(
            exit_code=_KILLED,
            reason="ContainerStatusUnknown",
            message="The container could not be located when the pod was terminated",
            started_at=None,
            finished_at=timestamp(),
        )
        for pod in self._store.list(PODS):
            if "nodeName" in pod["spec"] and not is_terminal(pod):
                self._report(pod, lambda current: ended_status(current, lost))
                self._settle(pod)

    def _folder(self, pod: Json) -> Path:
        return self._state / "pods" / uid_of(pod)


def node_object(version: str) -> Json:
    """Return the Node that stands for this machine."""
    memory_ki = psutil.virtual_memory().total // 1024
    capacity = {"cpu": str(os.cpu_count() or 1), "memory": f"{memory_ki}Ki", "pods": "512"}
    labels = {
        "kubernetes.io/hostname": NODE_NAME,
        "kubernetes.io/os": platform.system().lower(),
        "kubernetes.io/arch": {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine()),
    }
    status: Json = {
        "capacity": capacity,
        "allocatable": capacity,
        "addresses": [
            {"type": "InternalIP", "address": ADDRESS},
            {"type": "Hostname", "address": socket.gethostname()},
        ],
        "nodeInfo": {
            "kubeletVersion": version,
            "operatingSystem": labels["kubernetes.io/os"],
            "architecture": labels["kubernetes.io/arch"],
            "containerRuntimeVersion": "lockstep://1",
            "kernelVersion": platform.release(),
            "osImage": platform.platform(),
            "bootID": "",
            "machineID": "",
            "systemUUID": "",
            "kubeProxyVersion": "",
        },
    }
    status = with_condition(status, "Ready", True, "KubeletReady", "pods of this node are local processes")
    metadata = {"name": NODE_NAME, "uid": new_uid(), "creationTimestamp": timestamp(), "labels": labels}
    return {"kind": "Node", "apiVersion": "v1", "metadata": metadata, "spec": {}, "status": status}
