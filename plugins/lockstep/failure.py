"""What a dead pod died of, and which of the dead is the cause.

The order in which evidence is read, and what each piece means, is the table in `docs/reference.md`; the exit codes are
those of the contract, with TensorFlow's preemption handler (42) beside them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from lockstep.failure_class import FailureClass
from lockstep.pod_snapshot import PodSnapshot
from lockstep.termination_message import read_termination_message

EXIT_REQUEST, EXIT_DATA, EXIT_PEER_LOST, EXIT_STALLED, EXIT_STOPPED = 64, 65, 69, 75, 143
EXIT_TENSORFLOW_PREEMPTED = 42
EXIT_SIGKILL = 137

DISRUPTED_REASONS = frozenset({"Evicted", "Preempting", "NodeLost", "NodeShutdown", "Shutdown", "Terminated"})
BROKEN_IMAGE_REASONS = frozenset({"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"})
WRONG_IMAGE_REASONS = frozenset({"InvalidImageName", "ErrImageNeverPull"})
WRONG_IMAGE_WORDS = (
    *("not found", "no such image", "no image", "manifest unknown", "name unknown", "unknown authority"),
    *("denied", "unauthorized", "forbidden"),
)
NAMES_IN_MESSAGES = re.compile(r'"[^"]*"|\S*/\S*')
"""Images and addresses, whose words are their own."""
LOST_PEER_WORDS = ("UnavailableError", "Connection reset by peer", "Socket closed", "coordination service")
"""What TensorFlow says in a foreign image's last words where a peer was lost; ours has an exit code for it."""
BROKEN_CONFIG_REASONS = frozenset({"CreateContainerConfigError", "CreateContainerError", "RunContainerError"})


OVERDUE_S = 30.0
"""How long after the end of its grace a pod that still counts as running is given up: kubelets end containers at that
moment and report it within seconds, and the clocks of node, control plane and Airflow may differ."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkerFailure:
    """One dead worker, called `title`. `when` is seconds since the epoch, or None where the cluster did not say."""

    rank: int
    title: str
    node: str
    pod: str
    kind: FailureClass
    what: str
    step: int | None = None
    when: float | None = None
    traceback: str = ""

    def __str__(self) -> str:
        where = f" on {self.node}" if self.node else ""
        at_step = f" at step {self.step}" if self.step is not None else ""
        return f"{self.title}{where} ({self.pod}, {self.kind}): {self.what}{at_step}"


def vanished(pod: PodSnapshot) -> WorkerFailure:
    """The failure of a pod that was seen and is gone, though nobody here deleted it."""
    return _failure(pod, FailureClass.INFRA, pod.disruption or "its pod was deleted from outside")


def silent(pod: PodSnapshot) -> WorkerFailure:
    """The failure of a worker that peers have lost, and which itself says nothing."""
    return _failure(
        pod, FailureClass.INFRA, "its peers have lost it, and its pod still counts as running: its node may be lost"
    )


def overdue_at(pod: PodSnapshot) -> float | None:
    """When `pod` is to be given up if it has not ended by then; None while nobody deletes it."""
    return None if pod.deletion_due is None or pod.ended else pod.deletion_due + OVERDUE_S


def overdue(pod: PodSnapshot) -> WorkerFailure:
    """The failure of a pod that was to end, and whose node does not say that it has."""
    disrupted = f"{pod.disruption}: " if pod.disruption else ""
    return _failure(pod, FailureClass.INFRA, f"{disrupted}its pod was to end and its node does not answer")


def failure_of(pod: PodSnapshot) -> WorkerFailure | None:
    """What `pod` died of, or cannot start for; None while it lives, waits or has succeeded."""
    if pod.failed:
        return _classify_ended(pod)
    if pod.waiting_reason in BROKEN_IMAGE_REASONS:
        return _failure(pod, _image_failure(pod), f"its image cannot be pulled: {_waiting(pod)}")
    if pod.waiting_reason in BROKEN_CONFIG_REASONS:
        return _failure(pod, FailureClass.CONFIG, f"its container cannot be started: {_waiting(pod)}")
    return None


def _image_failure(pod: PodSnapshot) -> FailureClass:
    """A registry that says no will say so again; one that cannot be reached may be there in a moment."""
    said = NAMES_IN_MESSAGES.sub(" ", pod.waiting_message).lower()
    wrong = pod.waiting_reason in WRONG_IMAGE_REASONS or any(words in said for words in WRONG_IMAGE_WORDS)
    return FailureClass.CONFIG if wrong else FailureClass.SUSPECT


def culprit(failures: Iterable[WorkerFailure]) -> WorkerFailure | None:
    """The first in time that is not collateral; None where all that died did so because a peer was lost."""
    blamed = [failure for failure in failures if failure.kind is not FailureClass.COLLATERAL]
    return min(blamed, key=_moment, default=None)


def first(failures: Iterable[WorkerFailure]) -> WorkerFailure | None:
    return min(failures, key=_moment, default=None)


def _moment(failure: WorkerFailure) -> tuple[float, int]:
    return (failure.when if failure.when is not None else float("inf"), failure.rank)


def _classify_ended(pod: PodSnapshot) -> WorkerFailure:
    if pod.reason == "OOMKilled":
        limit = f", limit {pod.memory_limit}" if pod.memory_limit else ""
        return _failure(pod, FailureClass.RESOURCE, f"OOMKilled{limit}")
    if pod.disruption or pod.reason in DISRUPTED_REASONS:
        return _failure(pod, FailureClass.INFRA, f"{pod.disruption or pod.reason}{_because(pod.message)}")
    if pod.exit_code is None:
        reason = pod.reason or "no reason given"
        return _failure(pod, FailureClass.SUSPECT, f"failed before its container ran: {reason}{_because(pod.message)}")
    return _classify_exit_code(pod, pod.exit_code)


def _classify_exit_code(pod: PodSnapshot, exit_code: int) -> WorkerFailure:
    by_contract = {
        EXIT_REQUEST: FailureClass.CONFIG,
        EXIT_DATA: FailureClass.USER,
        EXIT_PEER_LOST: FailureClass.COLLATERAL,
        EXIT_STALLED: FailureClass.STALL,
        EXIT_STOPPED: FailureClass.INFRA,
        EXIT_TENSORFLOW_PREEMPTED: FailureClass.INFRA,
        EXIT_SIGKILL: FailureClass.SUSPECT,
    }
    message = read_termination_message(pod.message)
    kind = by_contract.get(exit_code, FailureClass.USER)
    if kind is FailureClass.SUSPECT and pod.deletion_due is not None:
        # Whoever deleted it had it killed; not we, for whom a gang that is ended has no failures any more.
        return _failure(
            pod, FailureClass.INFRA, f"its pod was deleted from outside, and killed (exit code {exit_code})"
        )
    if not message.kind and any(word in pod.message for word in LOST_PEER_WORDS):
        kind = FailureClass.COLLATERAL if kind is FailureClass.USER else kind
    # Who is killed says nothing of it; Kubernetes then offers the end of the log, which is about something else.
    killed = exit_code == EXIT_SIGKILL and not message.kind
    said = "killed (SIGKILL)" if killed else message.text
    return WorkerFailure(
        rank=pod.rank,
        title=pod.title,
        node=pod.node,
        pod=pod.name,
        kind=kind,
        what=f"exit code {exit_code}{_because(said)}{_in_phase(message.phase)}",
        step=message.step,
        when=pod.finished_at,
        traceback=message.traceback,
    )


def _failure(pod: PodSnapshot, kind: FailureClass, what: str) -> WorkerFailure:
    message = read_termination_message(pod.message)
    return WorkerFailure(
        rank=pod.rank,
        title=pod.title,
        node=pod.node,
        pod=pod.name,
        kind=kind,
        what=what,
        step=message.step,
        when=pod.finished_at,
    )


def _waiting(pod: PodSnapshot) -> str:
    return f"{pod.waiting_reason}{_because(pod.waiting_message)}"


def _because(text: str) -> str:
    """In one line, whatever `text` is made of."""
    return f": {' '.join(text.split())}" if text else ""


def _in_phase(phase: str) -> str:
    return f" (in phase {phase})" if phase else ""
