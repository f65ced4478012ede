"""V1Service -> what it says of its gang: that it stands, since which launch, whose it is and what is kept of it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from lockstep.errors import InvalidSpec
from lockstep.names import ANNOTATION_CLEAN_UP, ANNOTATION_TASK_INSTANCE, GangId
from lockstep.parsing import parse


@dataclass(frozen=True, kw_only=True, slots=True)
class StandingGang:
    """A gang that was launched and not removed since. `launch` is its Service's UID.

    `clean_up` says which of its pods may stay (`lockstep.training_spec.CleanUp`).
    `gang` is None where the Service does not say which task instance it belongs to, or has another one's name.
    """

    service: str
    launch: str
    gang: GangId | None
    clean_up: str = "delete"


def standing_gang(service: Any) -> StandingGang:
    metadata, annotations = service.metadata, service.metadata.annotations or {}
    gang = _task_instance(annotations.get(ANNOTATION_TASK_INSTANCE, ""))
    return StandingGang(
        service=metadata.name,
        launch=metadata.uid,
        gang=gang if gang is not None and gang.name == metadata.name else None,
        clean_up=annotations.get(ANNOTATION_CLEAN_UP, "delete"),
    )


def _task_instance(annotation: str) -> GangId | None:
    try:
        return parse(GangId, json.loads(annotation), what=ANNOTATION_TASK_INSTANCE)
    except (ValueError, TypeError, InvalidSpec):
        return None
