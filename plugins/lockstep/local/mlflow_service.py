"""The stack's MLflow server: runs and the registry in SQLite, artifacts in the bucket."""

from __future__ import annotations

from collections.abc import Mapping

from lockstep.local.layout import BUCKET, StackLayout
from lockstep.local.ports import LOOPBACK
from lockstep.local.probe import HttpProbe
from lockstep.local.service import Service, base_environment
from lockstep.local.storage_service import client_environment

MLFLOW = "mlflow"


def mlflow_service(layout: StackLayout, ports: Mapping[str, int]) -> Service:
    url = mlflow_url(ports)
    return Service(
        name=MLFLOW,
        argv=(
            *(str(layout.programs / "mlflow"), "server", "--host", LOOPBACK, "--port", str(ports[MLFLOW])),
            *("--workers", "1", "--backend-store-uri", f"sqlite:///{layout.mlflow / 'mlflow.db'}"),
            *("--artifacts-destination", f"gs://{BUCKET}/mlflow"),
        ),
        env=base_environment(layout)
        | client_environment(ports)
        | {
            "MLFLOW_DISABLE_TELEMETRY": "true",
            # Its job runner adds processes for evaluation jobs, which nothing here starts.
            "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        },
        cwd=layout.mlflow,
        ready=HttpProbe(url=f"{url}/health"),
        url=url,
    )


def mlflow_url(ports: Mapping[str, int]) -> str:
    return f"http://{LOOPBACK}:{ports[MLFLOW]}"
