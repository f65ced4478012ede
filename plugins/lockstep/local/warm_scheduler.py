"""Airflow's scheduler, having imported first what most tasks import.

LocalExecutor forks every task from the scheduler's process, so this saves each of them some seconds, and memory: the
pages are shared. It is Airflow's own scheduler otherwise. Nothing of Lockstep is imported here, so that a task sees the
plugin's code as it is when the task starts.
"""

from __future__ import annotations

import importlib
import sys

_WHAT_TASKS_IMPORT = ("airflow.providers.cncf.kubernetes.operators.pod", "google.cloud.storage", "mlflow")


def main() -> None:
    for module in _WHAT_TASKS_IMPORT:
        importlib.import_module(module)
    airflow = importlib.import_module("airflow.__main__")
    sys.argv = ["airflow", "scheduler", *sys.argv[1:]]
    airflow.main()


if __name__ == "__main__":
    main()
