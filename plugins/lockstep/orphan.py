"""Is a gang an orphan: standing, though the task that it belongs to is over? Pure.

What stands and what Airflow says of its tasks is asked elsewhere; `sweep.py` removes the orphans.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from lockstep.names import GangId
from lockstep.standing_gang import StandingGang

OVER = frozenset({"success", "failed", "skipped", "upstream_failed", "removed"})
"""In these states nobody is going to look after a gang. Any other keeps it, one that Airflow may yet invent too."""

TaskStates: TypeAlias = Mapping[str, Mapping[str, str | None]]
"""As the Task SDK tells them: run id -> `task_id`, or `task_id_<map index>` -> state; None before it is scheduled."""


@dataclass(frozen=True, slots=True)
class Remove:
    """The task instance is over. With `keep_ended`, as its author asked, only pods that still run are to go."""

    gang: GangId
    state: str
    keep_ended: bool = False


@dataclass(frozen=True, slots=True)
class Keep:
    """Its task looks after it, or will."""

    gang: GangId
    state: str | None


@dataclass(frozen=True, slots=True)
class Leave:
    """Not for this Airflow to judge."""

    why: str


Fate: TypeAlias = Remove | Keep | Leave


def judge(standing: StandingGang, states: TaskStates) -> Fate:
    """What shall become of the gang, given what Airflow answers when asked for its task instance."""
    gang = standing.gang
    if gang is None:
        return Leave("it does not say which task instance it belongs to")
    instances, instance = states.get(gang.run_id, {}), _instance(gang)
    if instance not in instances:
        return Leave(f"this Airflow knows no {gang}; another one may, or a dag.test()")
    state = instances[instance]
    return Remove(gang, state, _keeps_ended(standing, state)) if state in OVER else Keep(gang, state)


def _keeps_ended(standing: StandingGang, state: str) -> bool:
    return standing.clean_up == "keep" or (standing.clean_up == "delete_succeeded" and state != "success")


def _instance(gang: GangId) -> str:
    return gang.task_id if gang.map_index < 0 else f"{gang.task_id}_{gang.map_index}"
