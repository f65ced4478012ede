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
    plan = plan_sharding(asked, files, workers, lambda: [100] * files)
    assert plan.policy == policy
    assert reason in plan.reason
    assert plan.report() == {"policy": policy, "files": files, "workers": workers, "reason": plan.reason}


def test_fewer_files_than_workers_are_refused_under_file() -> None:
    """tensorflow#36846: an InvalidArgumentError from the depths of the input pipeline."""
    with pytest.raises(InvalidData, match="a file for each of the 3 workers, and there are 2"):
        plan_sharding("file", 2, 3, lambda: [100] * 2)


@pytest.mark.parametrize(
    ("asked", "sizes", "policy", "reason"),
    [
        pytest.param("auto", [100, 105], "FILE", "every worker gets 1 of them", id="5 % more: FILE"),
        pytest.param("auto", [100, 106], "DATA", "the shares of files would differ by 6 %", id="6 % more: DATA"),
        pytest.param("auto", [300, 10, 10, 300], "FILE", "every worker gets 2 of them", id="shares count, not files"),
        pytest.param("auto", [0, 300], "DATA", "would differ by", id="an empty share: DATA"),
        pytest.param("file", [100, 105], "FILE", "it was asked for", id="FILE demanded, and even"),
        pytest.param(
            "file",
            [100, 300],
            "FILE",
            "it was asked for, though the shares of files differ by 200 %",
            id="FILE demanded: the spread is stated",
        ),
    ],
)
def test_auto_gives_files_only_to_even_shares(asked: Sharding, sizes: list[int], policy: str, reason: str) -> None:
    """All workers draw the same number of samples, so of a larger share some would never be trained on."""
    plan = plan_sharding(asked, len(sizes), 2, lambda: sizes)
    assert plan.policy == policy
    assert reason in plan.reason
    assert ("though" in plan.reason) == ("though" in reason)


@pytest.mark.parametrize(
    ("asked", "files", "workers"), [("data", 8, 2), ("auto", 8, 1), ("auto", 7, 2), ("auto", 1, 2)]
)
def test_sizes_are_not_asked_for_where_they_do_not_matter(asked: Sharding, files: int, workers: int) -> None:
    def never() -> list[int]:
        raise AssertionError("asked for")

    plan_sharding(asked, files, workers, never)
