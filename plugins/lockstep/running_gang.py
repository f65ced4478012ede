"""A gang that was launched: all that whoever watches it needs to know, and nothing that is secret.

It travels through Airflow's database inside the trigger, so it holds neither environment nor credentials.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lockstep.names import GangId, worker_name
from lockstep.roles import TRAIN, Member, RoleName, numbered
from lockstep.training_spec import CleanUp, Logs, Timeouts


@dataclass(frozen=True, kw_only=True, slots=True)
class RunningGang:
    """One attempt of `gang`, owned by the Service whose UID is `launch`. `uids` are its pods', by rank.

    `launched_at` and `deadline` are seconds since the epoch. `in_queue` tells that a queue may hold the pods back.
    `roles` are the pods', by rank, where not all are workers.
    `clean_up` says whose pods are deleted at the end (those that run always are), `logs` whose log is shown meanwhile.
    `deadline` is the end of Airflow's `execution_timeout`, which Airflow does not enforce while a task is deferred.
    """

    gang: GangId
    namespace: str
    attempt: int
    launch: str
    uids: tuple[str, ...]
    timeouts: Timeouts
    launched_at: float
    in_queue: bool = False
    clean_up: CleanUp = "delete"
    logs: Logs = "chief"
    roles: tuple[RoleName, ...] = ()
    deadline: float | None = None

    @property
    def workers(self) -> int:
        return len(self.uids)

    @property
    def members(self) -> tuple[Member, ...]:
        """By rank."""
        return numbered(self.roles or ["worker"] * self.workers)

    @property
    def has_helpers(self) -> bool:
        """Whether there are pods beside those that must succeed."""
        return len(self.required) < self.workers

    @property
    def required(self) -> Sequence[int]:
        """The ranks whose success is the gang's; the others are ended with it."""
        if not self.roles:
            return range(self.workers)
        return [rank for rank, role in enumerate(self.roles) if role in TRAIN]

    def pod(self, rank: int) -> str:
        return worker_name(self.gang, self.attempt, rank)
