"""The sharding check stops a run before its first pod, for good where waiting cannot help."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from lockstep.operators.check_sharding import CheckShardingOperator
from tests.airflow.task_context import task_context
from tests.airflow.trained_run import put


def check(**arguments: Any) -> Any:
    return CheckShardingOperator(task_id="check_sharding", **arguments).execute(task_context())


def test_the_report_says_what_each_worker_will_read(bucket: str) -> None:
    """Numbers arrive as strings where a template made them."""
    for number in range(3):
        put(f"{bucket}/train-{number}", b"x" * (number + 1))
    report = check(train_data=f"{bucket}/train-*", workers="2", sharding="file", eval_data=f"{bucket}/train-0")
    assert report == {
        "policy": "FILE",
        "files": 3,
        "size_bytes": 6,
        "workers": 2,
        "remainder": 1,
        "files_per_worker": [1, 2],
        "bytes_per_worker": [2, 4],
        "reason": report["reason"],
    }


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        pytest.param({"workers": 3, "sharding": "file"}, "use at most 2 workers", id="fewer files than workers"),
        pytest.param({"workers": 0}, "check_sharding.workers: input should be greater", id="no worker"),
        pytest.param({"workers": "many"}, "check_sharding.workers: input should be a valid integer", id="no number"),
        pytest.param(
            {"sharding": "rows"}, "check_sharding.sharding: input should be 'auto', 'file'", id="unknown policy"
        ),
        pytest.param({"train_data": "/data/train-*"}, "train_data .* is not in Cloud Storage", id="a local path"),
        pytest.param({"train_data": "gs://no-such-bucket/x"}, "'no-such-bucket' does not exist", id="no bucket"),
        pytest.param({"eval_data": "{bucket}/eval-*"}, "no file matches .*eval", id="nothing to evaluate on"),
    ],
)
def test_what_cannot_be_divided_fails_without_a_retry(bucket: str, arguments: dict[str, Any], complaint: str) -> None:
    """A retry would meet the same files."""
    for number in range(2):
        put(f"{bucket}/train-{number}", b"x")
    defaults = {"train_data": f"{bucket}/train-*", "workers": 2}
    arguments = {key: value.format(bucket=bucket) if key == "eval_data" else value for key, value in arguments.items()}
    with pytest.raises(AirflowFailException, match=complaint):
        check(**defaults | arguments)


def test_storage_that_does_not_answer_may_be_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Airflow's own retries are for this."""
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", "http://127.0.0.1:9")
    monkeypatch.setattr("lockstep.cloud_storage.PATIENCE_S", 0.5)
    with pytest.raises(AirflowException, match="try again") as failed:
        check(train_data="gs://b-1/train-*", workers=2)
    assert not isinstance(failed.value, AirflowFailException)
