"""Storage that refuses is the request's fault; storage that does not answer is nobody's, and another try may help."""

from __future__ import annotations

from pathlib import Path

import pytest
import tensorflow as tf

from trainer.ending import report_failure
from trainer.errors import InvalidRequest
from trainer.preflight import check_writable
from trainer.pulse import Pulse

RUN = "/b/run"


@pytest.mark.parametrize(
    "refusal",
    [
        tf.errors.PermissionDeniedError,
        tf.errors.UnauthenticatedError,
        tf.errors.NotFoundError,
        tf.errors.FailedPreconditionError,
        tf.errors.InvalidArgumentError,
    ],
)
def test_a_refusal_is_the_requests_fault(refusal: type[tf.errors.OpError], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trainer.storage.write_bytes", failing(refusal(None, None, "no")))
    with pytest.raises(InvalidRequest, match="cannot write to /b/run: no"):
        check_writable(RUN, None)


@pytest.mark.parametrize("workers", [1, 2])
def test_an_outage_is_not(workers: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """75 is restarted and retried; 64 never is."""
    said = "All 10 retry attempts failed. The last failure: Error executing an HTTP request: libcurl code 6"
    monkeypatch.setattr("trainer.storage.write_bytes", failing(tf.errors.AbortedError(None, None, said)))
    with pytest.raises(tf.errors.AbortedError) as caught:
        check_writable(RUN, None)
    assert report_failure(caught.value, workers, Pulse(), str(tmp_path / "log")) == 75
    assert "StorageUnavailable: storage does not answer: " in (tmp_path / "log").read_text()


def failing(error: Exception) -> object:
    def fail(*_: object) -> None:
        raise error

    return fail
