"""Buttons on a task's page that lead to what the task made.

Airflow asks for a link in the task's own process whenever that ends, after a deferral or a failure too, and keeps the
answer as an XCom. It is the operator that answers: Airflow logs an error for an XCom that is asked for too early.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperatorLink

from lockstep.errors import LockstepError

if TYPE_CHECKING:
    from airflow.sdk.types import TaskInstanceKey


class ModelVersionLink(BaseOperatorLink):
    """To the version's page in MLflow, `operator.page`; no button where the registry has no web page."""

    name = "Model version"

    def get_link(self, operator: Any, *, ti_key: TaskInstanceKey) -> str:
        return operator.page or ""


class RunDirectoryLink(BaseOperatorLink):
    """To `operator.directory_of(ti)` in the Cloud console; no button where an emulator stands in for Cloud Storage."""

    name = "Run directory"

    def get_link(self, operator: Any, *, ti_key: TaskInstanceKey) -> str:
        directory = ""
        with suppress(LockstepError):  # of what is missing, the task's own error tells
            directory = operator.directory_of(ti_key) or ""
        if not directory.startswith("gs://") or os.environ.get("STORAGE_EMULATOR_HOST"):
            return ""
        return f"https://console.cloud.google.com/storage/browser/{directory.removeprefix('gs://')}"
