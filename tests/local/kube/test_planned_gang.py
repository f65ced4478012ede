"""What `python -m lockstep plan` prints is what an API server takes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.local.kube.kubectl import Kubectl
from tests.local.kube.running_server import ROOT

SETTINGS = {"IMAGE": "lockstep/trainer:local", "RUN_ROOT": "gs://lockstep-test/runs"}


@pytest.fixture
def printed(tmp_path: Path) -> str:
    """Standard output of the command in a process of its own, with all that Airflow does there."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "plugins"), "AIRFLOW_HOME": str(tmp_path)}
    environment |= {f"AIRFLOW__LOCKSTEP__{key}": value for key, value in SETTINGS.items()}
    command = [sys.executable, "-m", "lockstep", "plan", str(ROOT / "dags/train_digits.py"), "train"]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout


def test_kubectl_applies_it_as_it_is(printed: str, kubectl: Kubectl) -> None:
    """`kubectl` reads YAML by other rules than Python does, so what it sends is what counts."""
    told = kubectl("apply", "--dry-run=server", "-f", "-", stdin=printed).splitlines()
    assert [line.split("/")[0] for line in told] == ["service", "pod", "pod"]
    assert all(line.endswith("created (server dry run)") for line in told)
    taken = json.loads(kubectl("apply", "--dry-run=server", "-o", "json", "-f", "-", stdin=printed))
    pod = taken["items"][1]
    environment = {variable["name"]: variable["value"] for variable in pod["spec"]["containers"][0]["env"]}
    assert environment["LOCKSTEP_RANK"] == "0"
    assert json.loads(environment["TF_CONFIG"])["task"] == {"type": "worker", "index": 0}
    assert pod["metadata"]["labels"]["lockstep/gang"] not in kubectl("get", "services,pods")
