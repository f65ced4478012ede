"""TF_CONFIG of one member of a gang, as `tf.distribute.cluster_resolver.TFConfigClusterResolver` reads it.

The chief is the task of type `chief` where there is one, otherwise worker 0. The list of workers does not contain it,
and an evaluator belongs to no cluster: it is only told of it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from lockstep.roles import Member


def tf_config(members: Sequence[Member], addresses: Sequence[str], rank: int) -> str | None:
    """JSON for the member of `rank`, whose peers are at `addresses` ("host:port", by rank).

    None for whoever has no peers: it trains as if there were no cluster.
    """
    own, cluster = members[rank], _cluster(members, addresses)
    if own.role in cluster and sum(map(len, cluster.values())) == 1:
        return None
    return json.dumps({"cluster": cluster, "task": {"type": own.role, "index": own.index}})


def _cluster(members: Sequence[Member], addresses: Sequence[str]) -> dict[str, list[str]]:
    cluster: dict[str, list[str]] = {}
    for member, address in zip(members, addresses, strict=True):
        if member.role != "evaluator":
            cluster.setdefault(member.role, []).append(address)
    return cluster
