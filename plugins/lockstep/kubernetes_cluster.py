"""Cluster over Airflow's Kubernetes hook and kubernetes_asyncio: one client and one watch for a gang of any size.

Short failures of the API are retried here, with back-off; what remains is raised as one of our errors. What to do about
what is seen is not decided here.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import aiohttp
from airflow.providers.cncf.kubernetes.kubernetes_helper_functions import WaitRetryAfterOrExponential
from kubernetes_asyncio.client import CoreV1Api, CustomObjectsApi, V1DeleteOptions, V1Preconditions
from kubernetes_asyncio.client.exceptions import ApiException
from kubernetes_asyncio.client.rest import RESTResponse
from kubernetes_asyncio.watch import Watch
from tenacity import AsyncRetrying, retry_if_exception, retry_if_exception_type, stop_before_delay, wait_fixed

from lockstep.cluster import AlreadyExists, LogLine
from lockstep.errors import ClusterUnavailable, InvalidSpec, LockstepError, QuotaExceeded
from lockstep.gang_scheduling import ignored
from lockstep.kubernetes_client import open_client
from lockstep.kubernetes_errors import as_lockstep_error, is_brief, is_replaced, is_taken
from lockstep.log_lines import log_lines
from lockstep.names import gang_selector, group_name, installation_selector
from lockstep.pod_event import PodEvent, PodGone, PodSeen, PodsListed
from lockstep.pod_snapshot import PodSnapshot, snapshot
from lockstep.standing_gang import StandingGang, standing_gang
from lockstep.worker_pod import CONTAINER, owned, pod_manifest, service_manifest

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Sequence

    from lockstep.gang_object import GangObject
    from lockstep.names import GangId
    from lockstep.pod_plan import GangPlan, WorkerPod

log = logging.getLogger(__name__)

RETRY_FOR_S = 60.0
WATCH_PATIENCE_S = 900.0
"""How long the API may be away while a gang is watched: control planes that are upgraded are away for minutes, and the
pods train on meanwhile."""
WATCH_FOR_S = 300
SILENCE_S = 150.0
"""A watch without a word for this long is taken for dead: API servers send a bookmark about once a minute."""
QUOTA_COUNTED_S = 10.0
LOG_SILENCE_S = 300.0
"""A log without a word for this long is asked for anew: what lies between forgets idle connections without a word."""
LOG_CHUNK_BYTES = 16 * 1024
"""How much of a log is in hand at once; more waits in its connection, which holds its sender back."""
REWATCH_PAUSE_S = 0.5
REWATCH_PAUSE_MOST_S = 5.0
RECONNECT_PAUSE_S = 1.0
NOT_ENDED = "status.phase!=Succeeded,status.phase!=Failed"
LEFTOVER_S = 30.0
"""How long an object of a former launch may take to go: it is collected as soon as its Service is gone."""
TAIL_BYTES = 64 * 1024
CLOCK_SKEW_S = 60
"""How far the clocks of a node and of Airflow may be apart without losing a line of a log that is taken up again."""


_NOT_TO_BE_HAD = (ApiException, aiohttp.ClientError, TimeoutError, LockstepError)
_LONG_AGO = datetime.fromtimestamp(0, UTC)


class KubernetesCluster:
    """The namespace of a cluster, reached through the Airflow connection `conn_id`. See `lockstep.cluster.Cluster`."""

    def __init__(self, *, conn_id: str, namespace: str) -> None:
        self._conn_id = conn_id
        self._namespace = namespace
        self._lifetime = AsyncExitStack()
        self._renewing = asyncio.Lock()
        self._heard_at = time.monotonic()
        self._core: CoreV1Api

    @asynccontextmanager
    async def connected(self, *, patience_s: float = 0.0) -> AsyncIterator[None]:
        """Raises InvalidSpec if the connection is missing or cannot be used, for as long as `patience_s`.

        Airflow says of a secrets backend that does not answer that the connection is not defined.
        """
        async for attempt in _connecting(patience_s):
            with attempt:
                self._core = CoreV1Api(await open_client(self._conn_id, self._lifetime))
        try:
            yield
        finally:
            await self._lifetime.aclose()

    async def create_service(self, plan: GangPlan) -> str | None:
        try:
            service = await self._call(
                "create_namespaced_service", "create the gang's Service", body=service_manifest(plan)
            )
        except AlreadyExists:
            return None
        return str(service.metadata.uid)

    async def create_object(self, plan: GangPlan, thing: GangObject, owner_uid: str) -> None:
        for offered in thing.in_versions():
            async for attempt in _while_taken():
                with attempt:
                    served = await self._create_object(offered, owned(offered.manifest, plan, owner_uid), owner_uid)
            if served:
                return
        raise InvalidSpec(
            f"the cluster does not know {thing.plural} of {thing.group} in version "
            f"{' or '.join(offered.version for offered in thing.in_versions())}; they come with {thing.provider}"
        )

    async def create_pod(self, plan: GangPlan, worker: WorkerPod, owner_uid: str) -> PodSnapshot:
        manifest = pod_manifest(plan, worker, owner_uid)
        try:
            async for attempt in _while_quota_is_full():
                with attempt:
                    pod = await self._call("create_namespaced_pod", f"create pod {worker.name}", body=manifest)
        except AlreadyExists:
            # The answer to our own, retried request may have been lost: the owner tells whose pod it is.
            pod = await self._call(
                "read_namespaced_pod", f"read pod {worker.name}", name=worker.name, missing_is_fine=True
            )
            if pod is None or owner_uid not in {owner.uid for owner in pod.metadata.owner_references or ()}:
                raise
        if (wrong := ignored(plan.spec, pod.metadata.labels)) is not None:
            raise InvalidSpec(wrong)
        return snapshot(pod)

    async def _create_object(self, thing: GangObject, manifest: dict[str, Any], owner_uid: str) -> bool:
        """Whether the cluster serves such objects; the namespace is there, as its Service is."""
        place: dict[str, Any] = {"group": thing.group, "version": thing.version, "plural": thing.plural}
        try:
            created = await self._call(
                "create_namespaced_custom_object", f"create {thing}", body=manifest, missing_is_fine=True, **place
            )
        except AlreadyExists:
            found = await self._call(
                "get_namespaced_custom_object", f"read {thing}", name=thing.name, missing_is_fine=True, **place
            )
            owners = found["metadata"].get("ownerReferences", ()) if found else ()
            if owner_uid not in {owner["uid"] for owner in owners}:
                raise
            return True
        return created is not None

    async def pods(self, gang: GangId) -> Sequence[PodSnapshot]:
        return (await self._list(gang))[0]

    async def standing(self, installation: str) -> list[StandingGang]:
        """All gangs of one Airflow that were launched here and not removed since."""
        listed = await self._call(
            "list_namespaced_service", "list the gangs' Services", label_selector=installation_selector(installation)
        )
        return [standing_gang(service) for service in listed.items]

    async def events(self, gang: GangId) -> AsyncGenerator[PodEvent]:
        while True:
            pods, version = await self._list(gang, patience_s=WATCH_PATIENCE_S)
            yield PodsListed(tuple(pods))
            try:
                async with aclosing(self._changes(gang, version)) as changes:
                    async for event in changes:
                        yield event
            except ApiException as refusal:
                await self._outlive(refusal, gang)

    async def log(self, pod: str, since: LogLine | None) -> AsyncIterator[LogLine]:
        response = await self._call(
            "read_namespaced_pod_log",
            f"read the log of pod {pod}",
            name=pod,
            container=CONTAINER,
            follow=True,
            timestamps=True,
            since_seconds=_seconds_since(since) if since else None,
            _preload_content=False,
            _request_timeout=(RETRY_FOR_S, LOG_SILENCE_S),
        )
        try:
            async for line in log_lines(response.content.iter_chunked(LOG_CHUNK_BYTES)):
                if since is None or line.after(since):
                    yield line
        except (aiohttp.ClientError, TimeoutError) as cut:
            raise ClusterUnavailable(f"the log of pod {pod} was cut: {type(cut).__name__} {cut}") from cut
        finally:
            response.close()

    async def tail(self, pod: str, lines: int) -> Sequence[str]:
        asked = {"name": pod, "container": CONTAINER, "tail_lines": lines, "limit_bytes": TAIL_BYTES}
        try:
            answer = await self._authenticated("read_namespaced_pod_log", {**asked, "_preload_content": False})
            text = await answer.read()
        except _NOT_TO_BE_HAD:
            return ()
        return tuple(text.decode(errors="replace").splitlines())

    async def warnings(self, gang: GangId, attempt: int) -> Sequence[str]:
        group = group_name(gang, attempt)
        try:
            listed = await self._authenticated("list_namespaced_event", {"field_selector": "type=Warning"})
        except _NOT_TO_BE_HAD:
            return ()
        last: dict[str, str] = {}
        for event in sorted(listed.items, key=_moment):
            name = event.involved_object.name or ""
            if name == group or name.startswith(f"{group}-"):
                last[name] = f"{event.reason}: {event.message}"
        return tuple(f"{name}: {said}" for name, said in sorted(last.items()))

    async def delete_running(self, gang: GangId, grace_s: int, launch: str) -> None:
        await self._delete_pods(gang, grace_s, launch, field_selector=NOT_ENDED)

    async def delete(self, gang: GangId, grace_s: int, launch: str | None = None) -> None:
        await self._delete_pods(gang, grace_s, launch)
        await self._call(
            "delete_namespaced_service",
            f"delete Service {gang.name}",
            name=gang.name,
            body=V1DeleteOptions(preconditions=V1Preconditions(uid=launch)) if launch else None,
            missing_is_fine=True,
        )

    async def _delete_pods(self, gang: GangId, grace_s: int, launch: str | None, **which: Any) -> None:
        await self._call(
            "delete_collection_namespaced_pod",
            f"delete the pods of {gang.name}",
            label_selector=gang_selector(gang, launch),
            grace_period_seconds=grace_s,
            **which,
        )

    async def _list(self, gang: GangId, *, patience_s: float = RETRY_FOR_S) -> tuple[list[PodSnapshot], str]:
        """One pod at a time is made an object of the client's: those of a large gang take ten times their JSON."""
        answer = await self._call(
            "list_namespaced_pod",
            "list the gang's pods",
            unparsed=True,
            patience_s=patience_s,
            label_selector=gang_selector(gang),
        )
        listed = json.loads(answer)
        return [snapshot(self._pod(item)) for item in listed["items"]], listed["metadata"]["resourceVersion"]

    def _pod(self, item: dict[str, Any]) -> Any:
        """The `V1Pod` of a list's item; the client takes text only."""
        return self._core.api_client.deserialize(SimpleNamespace(data=json.dumps(item)), "V1Pod")

    async def _changes(self, gang: GangId, version: str) -> AsyncGenerator[PodEvent]:
        """Follows the changes since `version`; resumes where it was when the server or the network ends the stream.

        Raises ClusterUnavailable once nothing has been heard for WATCH_PATIENCE_S.
        """
        pause_s = REWATCH_PAUSE_S
        async with Watch(return_type="V1Pod") as watch:  # one for all streams: making it takes the event loop 50 ms
            while True:
                heard_at = self._heard_at
                stream = watch.stream(
                    self._watched_pods,
                    label_selector=gang_selector(gang),
                    resource_version=version,
                    allow_watch_bookmarks=True,
                    timeout_seconds=WATCH_FOR_S,
                    _request_timeout=(RETRY_FOR_S, SILENCE_S),
                )
                try:
                    async for change in stream:
                        if not isinstance(change, dict):
                            break  # the stream ended within a line
                        self._heard_at = time.monotonic()
                        version = watch.resource_version or version
                        if (event := _event(change)) is not None:
                            yield event
                except (aiohttp.ClientError, TimeoutError) as cut:
                    log.info("The watch on %s was cut (%s); going on from version %s", gang, cut, version)
                    self._give_up_after_silence(cut)
                await watch.close()
                pause_s = REWATCH_PAUSE_S if self._heard_at > heard_at else min(2 * pause_s, REWATCH_PAUSE_MOST_S)
                await asyncio.sleep(pause_s)

    def _give_up_after_silence(self, failure: Exception) -> None:
        if time.monotonic() - self._heard_at > WATCH_PATIENCE_S:
            raise self._unreachable("watch the gang's pods", WATCH_PATIENCE_S, failure) from failure

    async def _watched_pods(self, **arguments: Any) -> Any:
        return await self._authenticated("list_namespaced_pod", arguments)

    async def _outlive(self, refusal: ApiException, gang: GangId) -> None:
        """Pause where a refused watch may succeed soon; raises one of our errors where it will not."""
        if refusal.status == 410:  # too much has happened since: it is enough to list again
            return
        if not is_brief(refusal):
            raise as_lockstep_error(refusal, "watch the gang's pods")
        log.warning("The watch on %s was refused, listing again: %s", gang, refusal.reason)
        await asyncio.sleep(REWATCH_PAUSE_S)

    async def _call(
        self,
        operation: str,
        doing: str,
        *,
        missing_is_fine: bool = False,
        unparsed: bool = False,
        patience_s: float = RETRY_FOR_S,
        **arguments: Any,
    ) -> Any:
        """One API request in the gang's namespace; retried while the API is briefly unable, 401 renews the client.

        Returns the client's object of the answer, or its bytes where it is to be left `unparsed`.
        """
        try:
            async for attempt in _retrying(patience_s):
                with attempt:
                    if not unparsed:
                        return await self._authenticated(operation, arguments)
                    answer = await self._authenticated(operation, arguments | {"_preload_content": False})
                    return await answer.read()
        except ApiException as refusal:
            if missing_is_fine and (refusal.status == 404 or is_replaced(refusal)):
                return None
            if is_taken(refusal):
                raise AlreadyExists(doing) from refusal
            raise as_lockstep_error(refusal, doing) from None
        except (aiohttp.ClientError, TimeoutError) as failure:
            raise self._unreachable(doing, patience_s, failure) from failure

    def _unreachable(self, doing: str, patience_s: float, failure: Exception) -> ClusterUnavailable:
        return ClusterUnavailable(
            f"the Kubernetes API of connection {self._conn_id!r} could not be reached for {patience_s:g} s "
            f"to {doing}: {type(failure).__name__}: {failure}"
        )

    async def _authenticated(self, operation: str, arguments: dict[str, Any]) -> Any:
        core = self._core
        try:
            return await self._request(core, operation, arguments)
        except ApiException as refusal:
            if refusal.status != 401:
                raise
        await self._renew(core)
        return await self._request(self._core, operation, arguments)

    async def _request(self, core: CoreV1Api, operation: str, arguments: dict[str, Any]) -> Any:
        api = core if hasattr(core, operation) else CustomObjectsApi(core.api_client)
        answer = await getattr(api, operation)(namespace=self._namespace, **arguments)
        self._heard_at = time.monotonic()
        if isinstance(answer, aiohttp.ClientResponse) and answer.status >= 400:
            # The client raises for no answer that is streamed; a refusal would be read as a log, or as pods.
            raise ApiException(http_resp=RESTResponse(answer, await answer.read()))  # type: ignore[arg-type]
        return answer

    async def _renew(self, refused: CoreV1Api) -> None:
        """Replace the client, once for all whose requests were refused with the credentials of the old one."""
        async with self._renewing:
            if self._core is refused:
                lifetime = AsyncExitStack()
                async for attempt in _connecting(RETRY_FOR_S):
                    with attempt:
                        self._core = CoreV1Api(await open_client(self._conn_id, lifetime))
                old, self._lifetime = self._lifetime, lifetime
                await old.aclose()


def _connecting(patience_s: float) -> AsyncRetrying:
    return AsyncRetrying(
        retry=retry_if_exception_type(LockstepError),
        wait=wait_fixed(RECONNECT_PAUSE_S),
        stop=stop_before_delay(patience_s),
        before_sleep=lambda state: log.warning("Trying again: %s", state.outcome and state.outcome.exception()),
        reraise=True,
    )


def _retrying(patience_s: float) -> AsyncRetrying:
    return AsyncRetrying(
        retry=retry_if_exception(_brief),
        wait=WaitRetryAfterOrExponential(),
        stop=stop_before_delay(patience_s),
        reraise=True,
    )


def _while_taken() -> AsyncRetrying:
    """What a former launch left has lost its owner, and goes soon."""
    return AsyncRetrying(
        retry=retry_if_exception_type(AlreadyExists),
        wait=wait_fixed(1.0),
        stop=stop_before_delay(LEFTOVER_S),
        reraise=True,
    )


def _while_quota_is_full() -> AsyncRetrying:
    """The use of a quota is counted anew some moments after pods have gone: those of the attempt before, for one."""
    return AsyncRetrying(
        retry=retry_if_exception_type(QuotaExceeded),
        wait=wait_fixed(1.0),
        stop=stop_before_delay(QUOTA_COUNTED_S),
        reraise=True,
    )


def _brief(failure: BaseException) -> bool:
    if isinstance(failure, ApiException):
        return is_brief(failure)
    return isinstance(failure, (aiohttp.ClientError, TimeoutError))


def _event(change: dict[str, Any]) -> PodEvent | None:
    match change["type"]:
        case "ADDED" | "MODIFIED":
            return PodSeen(snapshot(change["object"]))
        case "DELETED":
            return PodGone(snapshot(change["object"]))
        case _:
            return None  # a bookmark: only its version counts


def _moment(event: Any) -> datetime:
    """When a cluster last saw it; the API has a field of each generation, and any may be empty."""
    return event.last_timestamp or event.event_time or event.metadata.creation_timestamp or _LONG_AGO


def _seconds_since(line: LogLine) -> int:
    """How far back to read so that the line is surely among what comes; the API counts whole seconds, from 1."""
    age_s = time.time() - datetime.fromisoformat(line.at).timestamp()
    return max(1, int(age_s) + CLOCK_SKEW_S)
