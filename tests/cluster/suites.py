"""The suites that a real cluster must pass: the contract with any cluster, and what only a real one shows."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.cluster.chosen_cluster import kubeconfig_elsewhere
from tests.cluster.cluster import up
from tests.cluster.image_build import IMAGES
from tests.cluster.images import provide_images
from tests.cluster.node_sharing import FOLDER as NODE_LOCKS

PROJECT = Path(__file__).parents[2]
HERE = Path(__file__).parent.relative_to(PROJECT)
# The longest begin first; the first two wait most of their time, and for different nodes.
LONGEST = (HERE / "test_bring_up.py", HERE / "test_failing_parts.py", Path("tests/contract/test_cluster_api.py"))
# Each a file at a time, and more than there are cores: starting a pod is mostly waiting.
AT_ONCE = ("--numprocesses=3", "--dist=loadfile", "--no-loadscope-reorder")


def run_suites(arguments: Sequence[str]) -> int:
    """pytest's exit code. `arguments` are pytest's, and replace the suites where they name any file or folder.

    Uses the cluster that $KUBECONFIG names, with the image $LOCKSTEP_TEST_IMAGE; otherwise brings one up, with ours.
    """
    named = [argument for argument in arguments if Path(argument.partition("::")[0]).exists()]
    chosen = () if named else (*AT_ONCE, *map(str, _suites()))
    command = [sys.executable, "-m", "pytest", "-p", "tests.cluster.node_sharing", *chosen, *arguments]
    cluster = _cluster()
    with tempfile.TemporaryDirectory() as locks:
        environment = {**os.environ, **cluster, NODE_LOCKS: locks}
        return subprocess.run(command, cwd=PROJECT, env=environment).returncode


def _suites() -> tuple[Path, ...]:
    here = (file.relative_to(PROJECT) for file in sorted((PROJECT / HERE).glob("test_*.py")))
    return (*LONGEST, *(file for file in here if file not in LONGEST))


def _cluster() -> Mapping[str, str]:
    chosen = {"LOCKSTEP_TEST_CLUSTER": "real", "LOCKSTEP_TEST_IMAGE": IMAGES["trainer"]}
    if kubeconfig_elsewhere() is None:
        kubeconfig = up().kubeconfig
        provide_images()
        return {**chosen, "KUBECONFIG": str(kubeconfig)}
    if "LOCKSTEP_TEST_IMAGE" not in os.environ:
        raise SystemExit(
            "KUBECONFIG is set: name in LOCKSTEP_TEST_IMAGE the image of docker/trainer.Dockerfile that this cluster "
            "can pull, or unset KUBECONFIG to bring a node up here"
        )
    return {"LOCKSTEP_TEST_CLUSTER": "real"}
