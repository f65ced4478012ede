"""Parts of the cluster fail under a running gang: its node is lost, its names are slow. Stops processes of the node."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from lockstep import removal
from lockstep.errors import GangLost
from tests.cluster.cluster import look
from tests.cluster.gangs import MEET, Gangs

pytestmark = [
    pytest.mark.alone,
    pytest.mark.skipif(look().layout is None, reason="stops parts of the cluster: only of one brought up here"),
]

GIVE_UP_A_LOST_NODE_AT_ONCE = [
    {"key": f"node.kubernetes.io/{taint}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0}
    for taint in ("not-ready", "unreachable")
]
NAMES_ARE_SLOW_FOR_S = 8.0


@contextmanager
def stopped(component: str) -> Iterator[None]:
    """The component does not answer, as if its machine were gone."""
    process = look().components[component]
    assert process is not None
    os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process, signal.SIGCONT)


@pytest.mark.usefixtures("kwok_nodes")
async def test_a_lost_node_ends_the_gang_on_the_infrastructures_account(
    real_gangs: Gangs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its pods never report again; that they are to be deleted because of the node is all there is to see.

    Kubernetes waits five minutes for a lost node unless the pods say otherwise, as these do. It never gives up the only
    node of a cluster: where all are lost, it takes its own network for the cause.
    """
    monkeypatch.setattr(removal, "CLEAN_UP_TIMEOUT_S", 5.0)  # no other test may use the node meanwhile
    plan = real_gangs.plan(pod_options={"tolerations": GIVE_UP_A_LOST_NODE_AT_ONCE})
    async with real_gangs.cluster.connected(), asyncio.timeout(180):
        supervised = asyncio.create_task(real_gangs.supervise(await real_gangs.launch(plan)))
        await real_gangs.started(plan)
        with stopped("kubelet"), pytest.raises(GangLost):
            await supervised
        await real_gangs.gone(plan)


async def test_names_that_resolve_late_delay_a_gang_and_do_not_fail_it(real_gangs: Gangs) -> None:
    plan = real_gangs.plan(MEET)
    async with real_gangs.cluster.connected():
        with stopped("coredns"):
            supervised = asyncio.create_task(real_gangs.supervise(await real_gangs.launch(plan)))
            await real_gangs.started(plan)
            await asyncio.sleep(NAMES_ARE_SLOW_FOR_S)
            assert not supervised.done()
        assert len((await supervised).uids) == 2
