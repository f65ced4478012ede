"""The only door to the outside: what the supervisor asks of a cluster, and of a clock.

`KubernetesCluster` is the implementation; the supervisor's tests bring one in memory.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from lockstep.gang_object import GangObject
from lockstep.names import GangId
from lockstep.pod_event import PodEvent
from lockstep.pod_plan import GangPlan, WorkerPod
from lockstep.pod_snapshot import PodSnapshot


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line of a container's log; `at` is the time stamp that Kubernetes put on it (RFC 3339, nanoseconds).

    It is the `nth`, from 1, of those that bear this stamp: some runtimes give one to all that they read at once.
    What a kubelet adds of its own has no stamp.
    """

    at: str
    text: str
    nth: int = 1

    def after(self, other: LogLine) -> bool:
        """Whether this line was written later; fractions of a second may have fewer digits where they end in zeros."""
        return (self.at.rstrip("Z"), self.nth) > (other.at.rstrip("Z"), other.nth)


class Cluster(Protocol):
    """All calls raise the errors of `lockstep.errors`, and nothing of the client library."""

    async def create_service(self, plan: GangPlan) -> str | None:
        """Create the Service that owns the gang's pods and return its UID, or None if it already exists."""

    async def create_object(self, plan: GangPlan, thing: GangObject, owner_uid: str) -> None:
        """Create one further object, owned by the Service. Raises AlreadyExists if its name is taken by another's."""

    async def create_pod(self, plan: GangPlan, worker: WorkerPod, owner_uid: str) -> PodSnapshot:
        """Create one pod, owned by the Service. Raises AlreadyExists if its name is taken."""

    async def pods(self, gang: GangId) -> Sequence[PodSnapshot]:
        """All pods of the gang, of whatever attempt."""

    def events(self, gang: GangId) -> AsyncGenerator[PodEvent]:
        """First a `PodsListed`, then every change, without end; a cut or expired watch is resumed by a new listing."""

    def log(self, pod: str, since: LogLine | None) -> AsyncIterator[LogLine]:
        """The log of a pod that has started, followed to its end; lines up to and with `since` are left out."""

    async def tail(self, pod: str, lines: int) -> Sequence[str]:
        """The last lines of a pod's log; empty where there is none to be had."""

    async def warnings(self, gang: GangId, attempt: int) -> Sequence[str]:
        """What the cluster last warned of about each pod of the attempt and its group; empty where not to be had."""

    async def delete(self, gang: GangId, grace_s: int, launch: str | None = None) -> None:
        """Ask for the Service and all pods of the gang to be deleted; what is gone already is fine.

        With `launch`, the UID of a Service, only that one and its pods: a newer launch is left alone.
        """

    async def delete_running(self, gang: GangId, grace_s: int, launch: str) -> None:
        """Ask for those pods of the launch to be deleted that have not ended; the others and the Service stay."""


class Clock(Protocol):
    """Wall-clock time, so that a deadline means the same in every process."""

    def now(self) -> float:
        """Seconds since the epoch."""


class AlreadyExists(Exception):
    """The name of an object to be created is taken."""
