"""May a gang that has ended be started anew, and when? Pure.

Whole gangs only: a lone restarted worker can never rejoin. Two budgets, because a lost machine says nothing about the
code and a bug does not get better.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

from pydantic import ConfigDict, Field

from lockstep.failure_class import FailureClass
from lockstep.parsing import STRICT_KEYS

Times = Annotated[int, Field(ge=0)]

MOST_DOUBLINGS = 64
"""More than any limit on a pause leaves, and few enough for a float."""

INFRA = frozenset({FailureClass.INFRA, FailureClass.STALL, FailureClass.COLLATERAL})


@dataclass(frozen=True, kw_only=True, slots=True)
class RestartPolicy:
    """How often one Airflow try starts its gang anew; the pauses, in seconds, double up to `max_backoff_s`.

    `max_infra_restarts` is for what the machines did: preemption, eviction, a lost node or peer, a stall, a start that
    took too long. A worker that was killed, or an image that could not be pulled, without a word of why, is restarted
    once on that account. `max_user_restarts` is for what the user's code did.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT_KEYS

    max_infra_restarts: Times = 3
    max_user_restarts: Times = 0
    backoff_s: Annotated[float, Field(ge=0)] = 10.0
    max_backoff_s: Annotated[float, Field(ge=0)] = 300.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Restarts:
    """How many there were so far. Those of a `suspect` are among those of `infra`."""

    infra: Times = 0
    user: Times = 0
    suspect: Times = 0

    @property
    def total(self) -> int:
        return self.infra + self.user


def next_restart(policy: RestartPolicy, so_far: Restarts, kind: FailureClass | None) -> Restarts | None:
    """The count with one restart more, or None where a gang that ended with `kind` is not started anew."""
    suspect = kind is FailureClass.SUSPECT
    if kind in INFRA or (suspect and so_far.suspect == 0):
        more = replace(so_far, infra=so_far.infra + 1, suspect=so_far.suspect + suspect)
    elif kind is FailureClass.USER:
        more = replace(so_far, user=so_far.user + 1)
    else:
        return None
    return more if more.infra <= policy.max_infra_restarts and more.user <= policy.max_user_restarts else None


def backoff_s(policy: RestartPolicy, restarts: Restarts) -> float:
    """How long to wait before the last of `restarts`."""
    return min(policy.max_backoff_s, policy.backoff_s * 2.0 ** min(restarts.total - 1, MOST_DOUBLINGS))
