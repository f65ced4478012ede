"""A gang that was launched: all that whoever watches it needs to know, and nothing that is secret.

It travels through Airflow's database inside the trigger, so it holds neither environment nor credentials.
"""

from __future__ import annotations

from dataclasses import dataclass

from lockstep.names import GangId, worker_name
from lockstep.training_spec import CleanUp, Logs, Timeouts


@dataclass(frozen=True, kw_only=True, slots=True)
class RunningGang:
    """One attempt of `gang`, owned by the Service whose UID is `launch`. `uids` are its pods', by rank.

    `launched_at` and `deadline` are seconds since the epoch.

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
    clean_up: CleanUp = "delete"
    logs: Logs = "chief"
    deadline: float | None = None

    @property
    def workers(self) -> int:
        return len(self.uids)

    def pod(self, rank: int) -> str:
        return worker_name(self.gang, self.attempt, rank)
