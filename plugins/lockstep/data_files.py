"""Looks at a training's files in storage before a pod exists: are they there, and how will they be divided?"""

from __future__ import annotations

from lockstep.cloud_storage import CloudStorage
from lockstep.gs_url import GsUrl
from lockstep.sharding import ShardingReport, plan_sharding


def divide_files(train_data: str, eval_data: str | None, *, workers: int, policy: str) -> ShardingReport:
    """Divide what matches the glob `train_data` among the workers; `eval_data` has to match something usable too.

    Raises:
        InvalidSpec: an address is none, matches nothing or an empty file, or the policy cannot be had.
    """
    report = _divide(train_data, "train_data", workers=workers, policy=policy)
    if eval_data:
        _divide(eval_data, "eval_data", workers=1, policy="data")
    return report


def _divide(pattern: str, what: str, *, workers: int, policy: str) -> ShardingReport:
    url = GsUrl.parse(pattern, what=what)
    return plan_sharding(CloudStorage().glob(url), workers=workers, policy=policy, source=str(url))
