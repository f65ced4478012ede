"""Cluster over Airflow's Kubernetes hook and kubernetes_asyncio: one client and one watch for a gang of any size.

Short failures of the API are retried here, with back-off; what remains is raised as one of our errors. What to do about
what is seen is not decided here.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any

import aiohttp
from airflow.providers.cncf.kubernetes.kubernetes_helper_functions import WaitRetryAfterOrExponential
from kubernetes_asyncio.client import CoreV1Api
from kubernetes_asyncio.client.exceptions import ApiException
from kubernetes_asyncio.watch import Watch
from tenacity import AsyncRetrying, retry_if_exception, stop_after_delay

from lockstep.cluster import AlreadyExists, LogLine
from lockstep.errors import ClusterUnavailable, InvalidSpec
from lockstep.kubernetes_errors import RETRIED_STATUSES, as_lockstep_error
from lockstep.log_lines import log_lines
from lockstep.names import gang_selector
from lockstep.pod_event import PodEvent, PodGone, PodSeen, PodsListed
from lockstep.pod_snapshot import PodSnapshot, snapshot
from lockstep.worker_pod import CONTAINER, pod_manifest, service_manifest

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from lockstep.names import GangId
    from lockstep.pod_plan import GangPlan, WorkerPod

log = logging.getLogger(__name__)

RETRY_FOR_S = 60.0
WATCH_FOR_S = 300
SILENCE_S = 150.0
"""A watch without a word for this long is taken for dead: API servers send a bookmark about once a minute."""
REWATCH_PAUSE_S = 0.5


class KubernetesCluster:
    """The namespace of a cluster, reached through the Airflow connection `conn_id`. See `lockstep.cluster.Cluster`."""

    def __init__(self, *, conn_id: str, namespace: str) -> None:
        self._conn_id = conn_id
        self._namespace = namespace
        self._client = AsyncExitStack()
        self._core: CoreV1Api

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[None]:
        """Raises InvalidSpec if the connection is missing or cannot be used."""
        await self._connect()
        try:
            yield
        finally:
            await self._client.aclose()

    async def create_service(self, plan: GangPlan) -> str | None:
        try:
            service = await self._call(
                "create_namespaced_service", "create the gang's Service", body=service_manifest(plan)
            )
        except AlreadyExists:
            return None
        return str(service.metadata.uid)

    async def create_pod(self, plan: GangPlan, worker: WorkerPod, owner_uid: str) -> PodSnapshot:
        manifest = pod_manifest(plan, worker, owner_uid)
        try:
            pod = await self._call("create_namespaced_pod", f"create pod {worker.name}", body=manifest)
        except AlreadyExists:
            # The answer to our own, retried request may have been lost: the owner tells whose pod it is.
            pod = await self._call("read_namespaced_pod", f"read pod {worker.name}", name=worker.name)
            if owner_uid not in {owner.uid for owner in pod.metadata.owner_references or ()}:
                raise
        return snapshot(pod)

    async def pods(self, gang: GangId) -> Sequence[PodSnapshot]:
        return (await self._list(gang))[0]

    async def events(self, gang: GangId) -> AsyncIterator[PodEvent]:
        while True:
            pods, version = await self._list(gang)
            yield PodsListed(tuple(pods))
            try:
                async for event in self._changes(gang, version):
                    yield event
            except ApiException as refusal:
                if refusal.status != 410:  # 410: too much has happened since; list again
                    log.warning("The watch on %s was refused, listing again: %s", gang, refusal.reason)
                    await asyncio.sleep(REWATCH_PAUSE_S)

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
            _request_timeout=(RETRY_FOR_S, None),
        )
        try:
            async for line in log_lines(response.content.iter_any()):
                if since is None or line.after(since):
                    yield line
        except (aiohttp.ClientError, TimeoutError) as cut:
            raise ClusterUnavailable(f"the log of pod {pod} was cut: {cut}") from cut
        finally:
            response.close()

    async def tail(self, pod: str, lines: int) -> Sequence[str]:
        try:
            text = await self._core.read_namespaced_pod_log(
                name=pod, namespace=self._namespace, container=CONTAINER, tail_lines=lines
            )
        except (ApiException, aiohttp.ClientError, TimeoutError):
            return ()
        return tuple(text.splitlines())

    async def delete(self, gang: GangId, grace_s: int) -> None:
        await self._call(
            "delete_collection_namespaced_pod",
            f"delete the pods of {gang.name}",
            label_selector=gang_selector(gang),
            grace_period_seconds=grace_s,
        )
        await self._call(
            "delete_namespaced_service", f"delete Service {gang.name}", name=gang.name, missing_is_fine=True
        )

    async def _list(self, gang: GangId) -> tuple[list[PodSnapshot], str]:
        listed = await self._call("list_namespaced_pod", "list the gang's pods", label_selector=gang_selector(gang))
        return [snapshot(pod) for pod in listed.items], str(listed.metadata.resource_version)

    async def _changes(self, gang: GangId, version: str) -> AsyncIterator[PodEvent]:
        """Follows the changes since `version`; resumes where it was when the server or the network ends the stream."""
        while True:
            async with Watch() as watch:
                stream = watch.stream(
                    self._core.list_namespaced_pod,
                    namespace=self._namespace,
                    label_selector=gang_selector(gang),
                    resource_version=version,
                    allow_watch_bookmarks=True,
                    timeout_seconds=WATCH_FOR_S,
                    _request_timeout=(RETRY_FOR_S, SILENCE_S),
                )
                try:
                    async for change in stream:
                        version = watch.resource_version or version
                        if (event := _event(change)) is not None:
                            yield event
                except (aiohttp.ClientError, TimeoutError) as cut:
                    log.info("The watch on %s was cut (%s); going on from version %s", gang, cut, version)
            await asyncio.sleep(REWATCH_PAUSE_S)

    async def _call(self, operation: str, doing: str, *, missing_is_fine: bool = False, **arguments: Any) -> Any:
        """One API request in the gang's namespace; retried while the API is briefly unable, 401 renews the client."""
        try:
            async for attempt in _retrying():
                with attempt:
                    return await self._authenticated(operation, arguments)
        except ApiException as refusal:
            if refusal.status == 404 and missing_is_fine:
                return None
            if refusal.status == 409:
                raise AlreadyExists(doing) from refusal
            raise as_lockstep_error(refusal, doing) from None
        except (aiohttp.ClientError, TimeoutError) as failure:
            raise ClusterUnavailable(
                f"the Kubernetes API of connection {self._conn_id!r} could not be reached for {RETRY_FOR_S:g} s "
                f"to {doing}: {type(failure).__name__}: {failure}"
            ) from failure

    async def _authenticated(self, operation: str, arguments: dict[str, Any]) -> Any:
        try:
            return await getattr(self._core, operation)(namespace=self._namespace, **arguments)
        except ApiException as refusal:
            if refusal.status != 401:
                raise
        await self._client.aclose()
        await self._connect()
        return await getattr(self._core, operation)(namespace=self._namespace, **arguments)

    async def _connect(self) -> None:
        from airflow.providers.cncf.kubernetes.hooks.kubernetes import AsyncKubernetesHook

        hook = AsyncKubernetesHook(conn_id=self._conn_id)
        try:
            client = await self._client.enter_async_context(hook.get_conn())
        except Exception as failure:
            raise InvalidSpec(
                f"Airflow connection {self._conn_id!r} does not lead to a Kubernetes API: {failure}; "
                "mend it under Admin > Connections, or name another with kubernetes_conn_id="
            ) from failure
        self._core = CoreV1Api(client)


def _retrying() -> AsyncRetrying:
    return AsyncRetrying(
        retry=retry_if_exception(_brief),
        wait=WaitRetryAfterOrExponential(),
        stop=stop_after_delay(RETRY_FOR_S),
        reraise=True,
    )


def _brief(failure: BaseException) -> bool:
    if isinstance(failure, ApiException):
        return failure.status in RETRIED_STATUSES
    return isinstance(failure, (aiohttp.ClientError, TimeoutError))


def _event(change: dict[str, Any]) -> PodEvent | None:
    match change["type"]:
        case "ADDED" | "MODIFIED":
            return PodSeen(snapshot(change["object"]))
        case "DELETED":
            return PodGone(snapshot(change["object"]))
        case _:
            return None  # a bookmark: only its version counts


def _seconds_since(line: LogLine) -> int:
    """How far back to read so that the line is surely among what comes; the API counts whole seconds."""
    return int(time.time() - datetime.fromisoformat(line.at[:19] + "+00:00").timestamp()) + 2
