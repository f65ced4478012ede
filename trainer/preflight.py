"""Finds out before training whether the run directory can be written, with the very client that will write there.

A missing permission is worth a clear sentence: who may not do what where.
"""

from __future__ import annotations

import http.client
import json
import uuid
from pathlib import Path
from typing import Any

import tensorflow as tf

from trainer import storage
from trainer.errors import InvalidRequest

_REFUSALS = (
    tf.errors.PermissionDeniedError,
    tf.errors.UnauthenticatedError,
    tf.errors.NotFoundError,
    tf.errors.FailedPreconditionError,
    tf.errors.InvalidArgumentError,
)
_METADATA_HOST = "metadata.google.internal"
_METADATA_TIMEOUT_S = 1.0


def check_writable(run_directory: str, credentials_file: str | None) -> None:
    """Write and delete a probe. Raises InvalidRequest naming bucket and identity when storage refuses; that it does not
    answer is no refusal, and passes as TensorFlow says it."""
    probe = storage.join(run_directory, f".preflight-{uuid.uuid4().hex}")
    try:
        storage.write_bytes(probe, b"may this worker write here?\n")
        if storage.size_bytes(probe) is None:
            raise InvalidRequest(f"{probe} was written without an error, and is not there")
        storage.remove(probe)
    except _REFUSALS as error:
        raise InvalidRequest(_refusal(run_directory, credentials_file, error)) from error


def _refusal(run_directory: str, credentials_file: str | None, error: Exception) -> str:
    reason = " ".join(str(error).split())[:300]
    if not storage.is_remote(run_directory):
        return f"cannot write to {run_directory}: {reason}"
    bucket = "/".join(run_directory.split("/")[:3])
    return (
        f"cannot write to {run_directory} as {_identity(credentials_file)}: {reason}. "
        f"Does {bucket} exist, and may this identity create, read, list and delete objects there?"
    )


def _identity(credentials_file: str | None) -> str:
    if credentials_file:
        email = _client_email(credentials_file)
        return f"{email or 'the identity'} of {credentials_file}"
    return _metadata_email() or "TensorFlow's default identity (no credentials file, no metadata server)"


def _client_email(credentials_file: str) -> str | None:
    try:
        content: Any = json.loads(Path(credentials_file).read_text())
        return str(content["client_email"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _metadata_email() -> str | None:
    """The service account of the node or the pod, on Google's clouds."""
    connection = http.client.HTTPConnection(_METADATA_HOST, timeout=_METADATA_TIMEOUT_S)
    try:
        path = "/computeMetadata/v1/instance/service-accounts/default/email"
        connection.request("GET", path, headers={"Metadata-Flavor": "Google"})
        response = connection.getresponse()
        return response.read().decode().strip() if response.status == http.client.OK else None
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()
