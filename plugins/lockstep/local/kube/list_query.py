"""What a client asks of a collection, read from the query string, and the page that answers it."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lockstep.local.kube.api_object import Json, name_of, namespace_of
from lockstep.local.kube.resource import Resource
from lockstep.local.kube.selector import Matches, field_selector, label_selector
from lockstep.local.kube.status_error import bad_request

_LONGEST_WATCH_S = 3600.0


@dataclass(frozen=True, kw_only=True, slots=True)
class ListQuery:
    """Selectors, paging and the options of a watch. `since` None means: begin with what is there."""

    matches: Matches
    limit: int | None
    after: tuple[str, str] | None
    watch: bool
    since: int | None
    timeout_s: float
    bookmarks: bool
    initial_events: bool


def list_query(resource: Resource, given: Mapping[str, str]) -> ListQuery:
    """Return the query; raises a 400 naming the parameter that is wrong."""
    by_label = label_selector(given.get("labelSelector", ""))
    by_field = field_selector(given.get("fieldSelector", ""), resource)
    initial_events = truth(given.get("sendInitialEvents"))
    version = number(given, "resourceVersion")
    return ListQuery(
        matches=lambda item: by_label(item) and by_field(item),
        limit=number(given, "limit") or None,
        after=_place(given["continue"]) if given.get("continue") else None,
        watch=truth(given.get("watch")),
        since=None if initial_events else version or None,
        timeout_s=float(number(given, "timeoutSeconds") or _LONGEST_WATCH_S),
        bookmarks=truth(given.get("allowWatchBookmarks")),
        initial_events=initial_events,
    )


def page(items: Sequence[Json], query: ListQuery) -> tuple[list[Json], Json]:
    """Return the items that match, up to the limit, and the `metadata` entries that say how to go on."""
    matching = [item for item in items if query.matches(item)]
    if query.after is not None:
        matching = [item for item in matching if _position(item) > query.after]
    if query.limit is None or len(matching) <= query.limit:
        return matching, {}
    shown = matching[: query.limit]
    left = len(matching) - len(shown)
    return shown, {"continue": _continue_token(shown[-1]), "remainingItemCount": left}


def number(given: Mapping[str, str], name: str) -> int | None:
    """Return a whole number from the query, or None if it is absent; raises a 400."""
    if not (text := given.get(name, "")):
        return None
    if not text.lstrip("-").isdecimal():
        raise bad_request(f'{name}: Invalid value: "{text}": expected a whole number')
    return int(text)


def truth(text: str | None) -> bool:
    return text is not None and text.lower() in ("", "1", "t", "true")


def _position(item: Json) -> tuple[str, str]:
    return namespace_of(item), name_of(item)


def _continue_token(last: Json) -> str:
    return base64.urlsafe_b64encode(json.dumps(_position(last)).encode()).decode()


def _place(token: str) -> tuple[str, str]:
    try:
        namespace, name = json.loads(base64.urlsafe_b64decode(token))
    except ValueError as error:
        raise bad_request("continue key is not valid: it was not given out by this server") from error
    return str(namespace), str(name)
