"""Files and workers give a policy, and the report says which and why."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstep.errors import InvalidSpec
from lockstep.sharding import plan_sharding
from lockstep.stored_object import StoredObject

SOURCE = "gs://b-1/train-*"


def files(*sizes: int) -> list[StoredObject]:
    return [StoredObject(path=f"train-{i:03}", size_bytes=size, crc32c="") for i, size in enumerate(sizes)]


@pytest.mark.parametrize(
    ("count", "workers", "asked", "policy", "reason"),
    [
        pytest.param(8, 2, "auto", "FILE", "give each of 2 workers 4", id="a multiple: FILE"),
        pytest.param(1, 1, "auto", "FILE", "give each of 1 workers 1", id="one file, one worker: FILE"),
        pytest.param(8, 3, "auto", "DATA", "no multiple of 3", id="a remainder: DATA"),
        pytest.param(2, 3, "auto", "DATA", "cannot give each of 3 workers one", id="too few files: DATA"),
        pytest.param(8, 2, "data", "DATA", "as asked", id="DATA was asked for"),
        pytest.param(8, 2, "file", "FILE", "give each of 2 workers 4", id="FILE was asked for, and divides evenly"),
        pytest.param(
            8, 3, "file", "FILE", "2 of 3 workers read 3 files, the others 2", id="FILE with a stated remainder"
        ),
    ],
)
def test_the_policy_in_force_and_its_reason(count: int, workers: int, asked: str, policy: str, reason: str) -> None:
    """Asked or chosen, the report states the policy in force; FILE never silently becomes DATA."""
    report = plan_sharding(files(*[10] * count), workers=workers, policy=asked, source=SOURCE)
    assert report.policy == policy
    assert reason in report.reason
    assert json.loads(json.dumps(report.to_xcom()))["policy"] == policy


def test_an_uneven_share_is_stated_in_files_and_bytes() -> None:
    """Who reads most and least is a number, not a guess."""
    report = plan_sharding(files(100, 1, 1, 1, 1), workers=2, policy="file", source=SOURCE)
    assert (report.remainder, report.files_per_worker, report.bytes_per_worker) == (1, (2, 3), (2, 102))


@pytest.mark.parametrize(
    ("given_files", "workers", "policy", "complaint"),
    [
        pytest.param(files(10, 10), 3, "file", "at most 2 workers", id="FILE with fewer files than workers"),
        pytest.param(files(), 1, "auto", "no file matches", id="no file at all"),
        pytest.param(files(10, 0, 10, 0), 2, "auto", "train-001, train-003", id="an empty file"),
        pytest.param(files(10), 1, "rows", "valid: auto, file, data", id="an unknown policy"),
        pytest.param(files(10), 0, "auto", "at least 1", id="no worker"),
    ],
)
def test_what_cannot_be_divided_is_refused(
    given_files: list[StoredObject], workers: int, policy: str, complaint: str
) -> None:
    """Refused before a pod exists, with a next step."""
    with pytest.raises(InvalidSpec, match=complaint):
        plan_sharding(given_files, workers=workers, policy=policy, source=SOURCE)


@pytest.mark.parametrize(
    ("sizes", "asked", "policy", "reason"),
    [
        pytest.param((100, 105), "auto", "FILE", "give each of 2 workers 1", id="5 % more: FILE"),
        pytest.param((100, 106), "auto", "DATA", "would be 100 to 106 bytes a worker", id="6 % more: DATA"),
        pytest.param(
            (100, 10, 10, 100), "auto", "FILE", "give each of 2 workers 2", id="equal shares of unequal files"
        ),
        pytest.param(
            (100, 10), "file", "FILE", "as asked, unevenly", id="FILE was asked for, and is said to be uneven"
        ),
    ],
)
def test_equally_many_files_are_no_equal_shares(sizes: tuple[int, ...], asked: str, policy: str, reason: str) -> None:
    """What a larger share has more is left out in each epoch, so `auto` lets each worker read all files instead."""
    report = plan_sharding(files(*sizes), workers=2, policy=asked, source=SOURCE)
    assert report.policy == policy
    assert reason in report.reason


@given(sizes=st.lists(st.integers(1, 10**9), min_size=1, max_size=40), workers=st.integers(1, 50))
def test_auto_never_refuses_usable_files_and_never_divides_unevenly(sizes: list[int], workers: int) -> None:
    """Whatever the numbers, auto finds a policy under which no worker lacks a file."""
    report = plan_sharding(files(*sizes), workers=workers, policy="auto", source=SOURCE)
    assert report.bytes_per_worker[1] <= 1.05 * report.bytes_per_worker[0]
    assert report.files_per_worker[0] == report.files_per_worker[1] >= 1
    assert report.remainder == 0
