"""V1Service -> what it says of its gang: that it stands, since which launch, and whose it is."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from lockstep.errors import InvalidSpec
from lockstep.names import ANNOTATION_TASK_INSTANCE, GangId
from lockstep.parsing import parse


@dataclass(frozen=True, kw_only=True, slots=True)
class StandingGang:
    """A gang that was launched and not removed since. `launch` is its Service's UID.

    `gang` is None where the Service does not say which task instance it belongs to, or has another one's name.
    """

    service: str
    launch: str
    gang: GangId | None


def standing_gang(service: Any) -> StandingGang:
    metadata = service.metadata
    gang = _task_instance((metadata.annotations or {}).get(ANNOTATION_TASK_INSTANCE, ""))
    known = gang is not None and gang.name == metadata.name
    return StandingGang(service=metadata.name, launch=metadata.uid, gang=gang if known else None)


def _task_instance(annotation: str) -> GangId | None:
    try:
        return parse(GangId, json.loads(annotation), what=ANNOTATION_TASK_INSTANCE)
    except (ValueError, TypeError, InvalidSpec):
        return None
