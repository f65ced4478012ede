"""A client of the cluster that an Airflow connection leads to. What is asked of it is others' business."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from lockstep.errors import ClusterUnavailable, InvalidSpec

if TYPE_CHECKING:
    from kubernetes_asyncio.client import ApiClient


async def open_client(conn_id: str, lifetime: AsyncExitStack) -> ApiClient:
    """A client that lives as long as `lifetime`.

    Raises InvalidSpec if the connection is missing or cannot be used, ClusterUnavailable if it could not be read now.
    """
    from airflow.providers.cncf.kubernetes.hooks.kubernetes import AsyncKubernetesHook
    from airflow.sdk.exceptions import AirflowException
    from kubernetes_asyncio.client import Configuration
    from kubernetes_asyncio.config import ConfigException

    configuration = Configuration()
    # With a bound, as many followed logs would leave no connection for the watch.
    configuration.connection_pool_maxsize = None
    to_mend = (AirflowException, ConfigException, ValueError, LookupError, TypeError, FileNotFoundError)
    try:
        hook = AsyncKubernetesHook(conn_id=conn_id, client_configuration=configuration)
        return await lifetime.enter_async_context(hook.get_conn())
    except to_mend as failure:
        raise InvalidSpec(
            f"Airflow connection {conn_id!r} does not lead to a Kubernetes API ({failure}); "
            "mend it under Admin > Connections, or name another one with kubernetes_conn_id="
        ) from failure
    except Exception as failure:  # of a secrets backend, a credential plugin, Airflow's own API
        raise ClusterUnavailable(
            f"Airflow connection {conn_id!r} could not be read ({type(failure).__name__}: {failure}); try again"
        ) from failure
