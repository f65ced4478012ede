"""Whether the cluster answers, and what a gang needs there is allowed: asked before anything is created.

One SelfSubjectAccessReview for each right, through the same connection that the gang will use.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

from lockstep.errors import ClusterUnavailable, NotPermitted
from lockstep.gang_scheduling import POD_GROUP_APIS
from lockstep.kubernetes_client import open_client
from lockstep.kubernetes_errors import as_lockstep_error
from lockstep.training_spec import GangScheduling

_PATIENCE_S = 30.0


@dataclass(frozen=True, slots=True)
class Right:
    """A verb on a resource, as a Role names it."""

    verb: str
    resource: str
    subresource: str = ""
    group: str = ""

    def __str__(self) -> str:
        group = f".{self.group}" if self.group else ""
        return f"{self.verb} {self.resource}{group}" + (f"/{self.subresource}" if self.subresource else "")


NEEDED = (
    Right("create", "services"),
    Right("list", "services"),
    Right("delete", "services"),
    Right("create", "pods"),
    Right("get", "pods"),
    Right("list", "pods"),
    Right("watch", "pods"),
    Right("deletecollection", "pods"),
    Right("get", "pods", "log"),
    Right("list", "events"),
)


OF_OBJECTS = ("create", "get")
POLICIES = tuple(Right(verb, "networkpolicies", group="networking.k8s.io") for verb in OF_OBJECTS)


def needed(scheduling: GangScheduling | None, *, network_policy: bool = False) -> tuple[Right, ...]:
    """The rights that a gang needs which is scheduled so, and has a network policy of its own or not."""
    group = POD_GROUP_APIS.get(scheduling) if scheduling else None
    pod_groups = tuple(Right(verb, "podgroups", group=group) for verb in OF_OBJECTS if group)
    return (*NEEDED, *pod_groups, *(POLICIES if network_policy else ()))


def check_access(
    *, conn_id: str, namespace: str, scheduling: GangScheduling | None = None, network_policy: bool = False
) -> None:
    """Pass if a gang can be run in `namespace`.

    Raises:
        InvalidSpec: there is no such connection, or it leads nowhere.
        NotPermitted: rights are missing, and which.
        ClusterUnavailable: the API did not answer.
    """
    missing = asyncio.run(_missing_rights(conn_id, namespace, needed(scheduling, network_policy=network_policy)))
    if missing:
        raise NotPermitted(
            f"the identity of Airflow connection {conn_id!r} may not {', '.join(map(str, missing))} in namespace "
            f"{namespace!r}; bind it to the Roles in docker/kubernetes/, or name another namespace"
        )


async def _missing_rights(conn_id: str, namespace: str, rights: Sequence[Right]) -> list[Right]:
    import aiohttp
    from kubernetes_asyncio.client.exceptions import ApiException

    try:
        async with asyncio.timeout(_PATIENCE_S):
            return await _reviewed(conn_id, namespace, rights)
    except ApiException as refusal:
        raise as_lockstep_error(refusal, f"say what is allowed in namespace {namespace!r}") from None
    except (aiohttp.ClientError, TimeoutError) as failure:
        raise ClusterUnavailable(
            f"the Kubernetes API of Airflow connection {conn_id!r} did not answer "
            f"({type(failure).__name__}: {failure}); see whether the cluster is up and can be reached from here"
        ) from failure


async def _reviewed(conn_id: str, namespace: str, rights: Sequence[Right]) -> list[Right]:
    from kubernetes_asyncio.client import AuthorizationV1Api, CoreV1Api

    async with AsyncExitStack() as lifetime:
        client = await open_client(conn_id, lifetime)
        await _require_namespace(CoreV1Api(client), namespace)
        reviews = AuthorizationV1Api(client)
        allowed = await asyncio.gather(*(_allowed(reviews, right, namespace) for right in rights))
    return [right for right, granted in zip(rights, allowed, strict=True) if not granted]


async def _require_namespace(core: Any, namespace: str) -> None:
    from kubernetes_asyncio.client.exceptions import ApiException

    try:
        await core.read_namespace(namespace)
    except ApiException as refusal:
        if refusal.status != 403:  # who may not look at namespaces may still be allowed all that a gang needs
            raise


async def _allowed(reviews: Any, right: Right, namespace: str) -> bool:
    from kubernetes_asyncio.client import V1ResourceAttributes, V1SelfSubjectAccessReview, V1SelfSubjectAccessReviewSpec

    asked = V1ResourceAttributes(
        namespace=namespace,
        verb=right.verb,
        group=right.group or None,
        resource=right.resource,
        subresource=right.subresource or None,
    )
    review = await reviews.create_self_subject_access_review(
        V1SelfSubjectAccessReview(spec=V1SelfSubjectAccessReviewSpec(resource_attributes=asked))
    )
    return bool(review.status.allowed)
