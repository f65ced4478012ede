"""Our errors -> the exception that tells Airflow whether another try can help."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from airflow.sdk.exceptions import AirflowException, AirflowFailException

from lockstep.errors import LockstepError


@contextmanager
def told_to_airflow() -> Iterator[None]:
    """Errors that its user must mend fail the task at once; the others leave Airflow its retries."""
    try:
        yield
    except LockstepError as error:
        raise airflow_error(error.told, retryable=error.retryable) from error


def airflow_error(message: str, *, retryable: bool) -> AirflowException:
    return AirflowException(message) if retryable else AirflowFailException(message)
