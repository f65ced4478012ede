"""The cluster to measure on: $KUBECONFIG's, else the node of `make cluster-up`, else the one-machine API."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.api import Api, open_api
from bench.fake_nodes import fake_nodes, kwok_is_there, placement

NODE_KUBECONFIG = Path(__file__).parents[1] / ".lockstep-cluster" / "kubeconfig"
LOCAL_START_S = 60.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    """`placement` are the arguments of KubernetesPodOperator that bring pods onto its nodes."""

    name: str
    api: Api
    placement: dict[str, Any]


@asynccontextmanager
async def target(folder: Path, *, local: bool, pods: int) -> AsyncIterator[Target]:
    """A cluster with room for so many pods; `folder` is for what the one-machine API keeps."""
    kubeconfig = None if local else _kubeconfig()
    if kubeconfig is None:
        async with _one_machine_api(folder) as served, open_api(served) as api:
            yield Target(name="lockstep.local", api=api, placement={})
        return
    async with open_api(kubeconfig) as api:
        if not await kwok_is_there(api):
            raise SystemExit(
                f"the cluster of {kubeconfig} has no kwok, whose nodes the pods would run on; or ask --local"
            )
        async with fake_nodes(api, pods):
            yield Target(name=await _version(api), api=api, placement=placement())


def _kubeconfig() -> Path | None:
    if "KUBECONFIG" in os.environ:
        return Path(os.environ["KUBECONFIG"])
    return NODE_KUBECONFIG if NODE_KUBECONFIG.exists() else None


async def _version(api: Api) -> str:
    return f"Kubernetes {(await api.ask('GET', '/version'))['gitVersion']}, kwok's nodes"


@asynccontextmanager
async def _one_machine_api(folder: Path) -> AsyncIterator[Path]:
    """Its pods are processes: good for small gangs."""
    kubeconfig, images = folder / "local-kubeconfig", folder / "images.json"
    images.write_text(json.dumps({"images": {"bench": {"path": ["/usr/bin", "/bin"], "working_directory": "/"}}}))
    arguments = ("--state", str(folder / "state"), "--images", str(images), "--kubeconfig", str(kubeconfig))
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", "lockstep.local.kube", *arguments)
    try:
        async with asyncio.timeout(LOCAL_START_S):
            while not kubeconfig.exists():  # noqa: ASYNC110 - a file of another process
                await asyncio.sleep(0.05)
        yield kubeconfig
    finally:
        process.send_signal(signal.SIGTERM)
        await process.wait()
