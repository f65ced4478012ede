"""What the Kubernetes API refused -> one of our errors, in the API's own words.

The exceptions of the synchronous and the asynchronous client have the same shape.
"""

from __future__ import annotations

import json
from typing import Any

from lockstep.errors import ClusterUnavailable, InvalidSpec, LockstepError, NotPermitted, QuotaExceeded

RETRIED_STATUSES = frozenset({429, 500, 502, 503, 504})


def as_lockstep_error(refusal: Any, doing: str) -> LockstepError:
    """`refusal` is an `ApiException`; `doing` completes "the Kubernetes API refused to …"."""
    said = f"the Kubernetes API refused to {doing}: {status_message(refusal)} (HTTP {refusal.status})"
    if refusal.status in (400, 422):
        return InvalidSpec(said)
    if refusal.status == 401:
        return NotPermitted(f"{said}; renew the credentials of the Airflow connection")
    if refusal.status == 403 and "exceeded quota" in said:
        return QuotaExceeded(f"{said}; raise the quota, or try again when other pods have ended")
    if refusal.status == 403:
        return NotPermitted(f"{said}; grant the right (docker/kubernetes/ has the Role)")
    if refusal.status == 404:
        no_namespace = (_status(refusal).get("details") or {}).get("kind") == "namespaces"
        return NotPermitted(f"{said}; create the namespace, or name another with namespace=" if no_namespace else said)
    return ClusterUnavailable(said)


def is_taken(refusal: Any) -> bool:
    """Whether an object was not created because another has its name."""
    return refusal.status == 409 and _status(refusal).get("reason") == "AlreadyExists"


def is_replaced(refusal: Any) -> bool:
    """Whether an object was not deleted because it is another one by now, of the same name."""
    return refusal.status == 409 and "precondition" in status_message(refusal).lower()


def is_brief(refusal: Any) -> bool:
    """Whether the same request may succeed soon.

    A 409 for any other reason is a lost race within the API server: pods that are created at the same time conflict
    on their namespace's ResourceQuota.
    """
    lost_race = refusal.status == 409 and not is_taken(refusal) and not is_replaced(refusal)
    return refusal.status in RETRIED_STATUSES or lost_race


def status_message(refusal: Any) -> str:
    """The `message` of the Status object in the answer, or the HTTP reason where there is none."""
    return str(_status(refusal).get("message") or refusal.reason)


def _status(refusal: Any) -> dict[str, Any]:
    try:
        status = json.loads(refusal.body)
    except (TypeError, ValueError):
        return {}
    return status if isinstance(status, dict) else {}
