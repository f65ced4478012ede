"""A legacy Keras script trains as a gang's image: all it is given is what the plan puts into TF_CONFIG."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from lockstep.names import GangId
from lockstep.pod_plan import plan_gang
from tests.trainer.ports import free_addresses
from tests.unit.builders import spec

SCRIPT = Path(__file__).with_name("legacy_keras_script.py")
TIMEOUT_S = 180


def test_a_script_that_calls_fit_of_legacy_keras_trains_on_two_workers(tmp_path: Path) -> None:
    """`fit` of Keras 3 cannot (keras#20585)."""
    ports = [int(address.rpartition(":")[2]) for address in free_addresses(2)]
    gang = GangId(dag_id="d", run_id="r", task_id="t")
    plan = plan_gang(spec(workers=2, rendezvous="loopback"), gang, attempt=1, loopback_ports=ports)
    workers = [
        subprocess.Popen(
            [sys.executable, SCRIPT, str(tmp_path / "backup")],
            env={**os.environ, **worker.env, "CUDA_VISIBLE_DEVICES": "-1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for worker in plan.workers
    ]
    try:
        said = [worker.communicate(timeout=TIMEOUT_S)[0] for worker in workers]
    finally:
        for worker in workers:
            worker.kill()
    assert [worker.returncode for worker in workers] == [0, 0], said
    told = [re.search(r"replicas=(\d+) loss=([\d.]+)", output) for output in said]
    assert all(told), said
    assert {match[1] for match in told if match} == {"2"}
    assert {float(match[2]) < 0.1 for match in told if match} == {True}
