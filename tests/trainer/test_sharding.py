"""The policy in force is stated, with its reason, or refused."""

from __future__ import annotations

import pytest

from trainer.errors import InvalidData
from trainer.sharding import plan_sharding
from trainer.training_request import Sharding


@pytest.mark.parametrize(
    ("asked", "files", "workers", "policy", "reason"),
    [
        pytest.param("auto", 8, 2, "FILE", "every worker gets 4", id="a multiple of the workers: FILE"),
        pytest.param("auto", 1, 1, "FILE", "every worker gets 1", id="one and one: FILE"),
        pytest.param("auto", 7, 2, "DATA", "7 files are no multiple of 2 workers", id="a remainder: DATA"),
        pytest.param("auto", 1, 2, "DATA", "fewer files than workers", id="too few files: DATA"),
        pytest.param("file", 7, 2, "FILE", "1 workers read one file more", id="FILE demanded: the remainder is stated"),
        pytest.param("data", 8, 2, "DATA", "it was asked for", id="DATA demanded: DATA"),
    ],
)
def test_the_policy_follows_the_files(asked: Sharding, files: int, workers: int, policy: str, reason: str) -> None:
    plan = plan_sharding(asked, files, workers)
    assert plan.policy == policy
    assert reason in plan.reason
    assert plan.report() == {"policy": policy, "files": files, "workers": workers, "reason": plan.reason}


def test_fewer_files_than_workers_are_refused_under_file() -> None:
    """tensorflow#36846: an InvalidArgumentError from the depths of the input pipeline."""
    with pytest.raises(InvalidData, match="a file for each of the 3 workers, and there are 2"):
        plan_sharding("file", 2, 3)
