"""What an exception of TensorFlow means: bad data, no permission, no storage, or a lost peer. Everything else is
the user's code.

A dead peer shows as a failed collective in every other worker, so the loudest error is often not the cause.
"""

from __future__ import annotations

from typing import Any, Final

import tensorflow as tf

from trainer.errors import InvalidData, InvalidRequest, PeerLost, StorageUnavailable, TrainerError
from trainer.termination import one_line

_INPUT_NODES: Final = ("IteratorGetNext", "MultiDeviceIteratorGetNext", "ReduceDataset", "OptionalGetValue")
_STORAGE_MARKS: Final = ("gs://", "libcurl", "storage.googleapis.com")
_COLLECTIVE_MARKS: Final = (
    "Collective ops is aborted",
    "CollectiveReduce",
    "coordination service",
    "CoordinationService",
)


def diagnose(error: BaseException, workers: int) -> TrainerError | None:
    """The orderly error that `error` stands for, or None when it is what it seems."""
    if isinstance(error, TrainerError):
        return error
    if not isinstance(error, tf.errors.OpError):
        return None
    if isinstance(error, tf.errors.PermissionDeniedError | tf.errors.UnauthenticatedError):
        return InvalidRequest(f"storage refuses access: {one_line(error)}")
    if _is_lost_peer(error, workers):
        return PeerLost(f"a peer died or left: {one_line(error)}")
    if _is_storage_outage(error):
        return StorageUnavailable(f"storage does not answer: {one_line(error)}")
    if isinstance(error, tf.errors.DataLossError) or _comes_from_input(error):
        return InvalidData(f"the data cannot be read: {one_line(error)}")
    return None


def _is_lost_peer(error: Any, workers: int) -> bool:
    if workers == 1 or any(mark in error.message for mark in _STORAGE_MARKS):
        return False
    if isinstance(error, tf.errors.UnavailableError | tf.errors.AbortedError | tf.errors.CancelledError):
        return True
    return any(mark in error.message for mark in _COLLECTIVE_MARKS)


def _is_storage_outage(error: Any) -> bool:
    """TensorFlow has tried again by itself before it says so, with Aborted."""
    outage = tf.errors.UnavailableError | tf.errors.AbortedError | tf.errors.DeadlineExceededError
    return isinstance(error, outage) and any(mark in error.message for mark in _STORAGE_MARKS)


def _comes_from_input(error: Any) -> bool:
    if "PyFunc" in error.message:  # Python code of the job's, called while reading
        return False
    wrong = tf.errors.InvalidArgumentError | tf.errors.NotFoundError | tf.errors.OutOfRangeError
    return isinstance(error, wrong) and any(node in error.message for node in _INPUT_NODES)
