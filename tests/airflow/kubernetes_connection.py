"""The Airflow connection of the deployment, as an environment variable gives it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest


def connect(monkeypatch: pytest.MonkeyPatch, kubeconfig: Path) -> None:
    """Let `kubernetes_default` lead to the cluster of `kubeconfig`."""
    connection = {"conn_type": "kubernetes", "extra": {"kube_config_path": str(kubeconfig)}}
    monkeypatch.setenv("AIRFLOW_CONN_KUBERNETES_DEFAULT", json.dumps(connection))
