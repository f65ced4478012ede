"""Whose business a failure is: what the supervisor, the restarts and Airflow's retries decide by."""

from __future__ import annotations

from enum import StrEnum


class FailureClass(StrEnum):
    """Who can mend it. SUSPECT may be anybody's; COLLATERAL died of a peer's death and is never blamed."""

    RESOURCE = "resource"
    INFRA = "infra"
    CONFIG = "config"
    USER = "user"
    STALL = "stall"
    SUSPECT = "suspect"
    COLLATERAL = "collateral"


USERS_TO_MEND = frozenset({FailureClass.RESOURCE, FailureClass.CONFIG, FailureClass.USER})
