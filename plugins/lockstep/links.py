"""Buttons on a task's page that lead to what the task made.

Airflow asks for a link in the task's own process when the task ends, and keeps the answer as an XCom; a class that is
named by an operator only, and by no plugin's `operators`, is asked nowhere else.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperatorLink

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from airflow.sdk.types import TaskInstanceKey


class ModelVersionLink(BaseOperatorLink):
    """To the version's page in MLflow; no button where the registry has no web page."""

    name = "Model version"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        return str(_returned(ti_key).get("page") or "")


class RunDirectoryLink(BaseOperatorLink):
    """To the run directory in the Cloud console; no button where an emulator stands in for Cloud Storage."""

    name = "Run directory"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        directory = str(_returned(ti_key).get("run_directory") or "")
        if not directory.startswith("gs://") or os.environ.get("STORAGE_EMULATOR_HOST"):
            return ""
        return f"https://console.cloud.google.com/storage/browser/{directory.removeprefix('gs://')}"


def _returned(ti_key: TaskInstanceKey) -> dict[str, Any]:
    from airflow.sdk.execution_time.xcom import XCom

    returned = XCom.get_value(ti_key=ti_key, key="return_value")
    return returned if isinstance(returned, dict) else {}
