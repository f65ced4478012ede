"""The API server, asked with an administrator's rights: JSON in, JSON out.

What the contenders ask of it goes through `counting_proxy.py`.
"""

from __future__ import annotations

import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
from kubernetes.client import Configuration
from kubernetes.config import load_kube_config

NO_TIMEOUT = aiohttp.ClientTimeout(total=None)
MERGE_PATCH = "application/merge-patch+json"
SERVER_SIDE_APPLY = "application/apply-patch+yaml"


class Refused(Exception):
    """The API server's answer was a refusal; the message is its own."""


@dataclass(frozen=True, slots=True)
class Api:
    """`url` has no slash at its end; `session` carries the rights."""

    url: str
    session: aiohttp.ClientSession

    async def ask(self, method: str, path: str, body: Any = None, content_type: str = "application/json") -> Any:
        """The object in the answer, None where there is no such object. Raises Refused."""
        given = None if body is None else json.dumps(body)
        headers = {"Content-Type": content_type}
        async with self.session.request(method, self.url + path, data=given, headers=headers) as answer:
            if answer.status == 404:
                return None
            if answer.status >= 400:
                raise Refused(f"{method} {path}: {answer.status} {(await answer.text())[:500]}")
            return await answer.json()

    async def watch(self, path: str, version: str) -> AsyncIterator[Any]:
        """Every change since `version`, until the API server has enough of it: so it has of a slow reader."""
        buffered = b""
        query = f"watch=1&resourceVersion={version}"
        async with self.session.get(f"{self.url}{path}?{query}", timeout=NO_TIMEOUT) as answer:
            async for piece in answer.content.iter_any():
                *lines, buffered = (buffered + piece).split(b"\n")
                for line in lines:
                    yield json.loads(line)


@asynccontextmanager
async def open_api(kubeconfig: Path) -> AsyncIterator[Api]:
    """The API server that a kubeconfig leads to."""
    access = Configuration()
    load_kube_config(str(kubeconfig), client_configuration=access)
    rights = ssl.create_default_context(cafile=access.ssl_ca_cert)
    if access.cert_file:
        rights.load_cert_chain(access.cert_file, access.key_file)
    token = access.get_api_key_with_prefix("BearerToken")
    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(ssl=rights, limit=0),
        headers={"Authorization": token} if token else None,
    )
    async with session:
        yield Api(access.host.rstrip("/"), session)
