"""TF_CONFIG of worker i, as `tf.distribute.cluster_resolver.TFConfigClusterResolver` reads it.

Rank 0 is the chief: TensorFlow takes worker 0 for it where no task has the type `chief`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence


def tf_config(addresses: Sequence[str], rank: int) -> str | None:
    """JSON for the worker of `rank` among `addresses` ("host:port" each); None for one worker: it needs no cluster."""
    if len(addresses) == 1:
        return None
    return json.dumps({"cluster": {"worker": list(addresses)}, "task": {"type": "worker", "index": rank}})
