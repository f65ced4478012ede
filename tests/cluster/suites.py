"""The suites that a real cluster must pass: the contract with any cluster, and what only a real one shows."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.cluster.cluster import up
from tests.cluster.image_build import IMAGES
from tests.cluster.images import provide_images

PROJECT = Path(__file__).parents[2]
SUITES = ("tests/contract/test_cluster_api.py", "tests/cluster")


def run_suites(arguments: Sequence[str]) -> int:
    """pytest's exit code. `arguments` are pytest's, and replace the suites where they name any file or folder.

    Uses the cluster that $KUBECONFIG names, with the image $LOCKSTEP_TEST_IMAGE; otherwise brings one up, with ours.
    """
    named = [argument for argument in arguments if Path(argument.partition("::")[0]).exists()]
    command = [sys.executable, "-m", "pytest", *(() if named else SUITES), *arguments]
    return subprocess.run(command, cwd=PROJECT, env={**os.environ, **_cluster()}).returncode


def _cluster() -> Mapping[str, str]:
    chosen = {"LOCKSTEP_TEST_CLUSTER": "real", "LOCKSTEP_TEST_IMAGE": IMAGES["trainer"]}
    if "KUBECONFIG" not in os.environ:
        kubeconfig = up().kubeconfig
        provide_images()
        return {**chosen, "KUBECONFIG": str(kubeconfig)}
    if "LOCKSTEP_TEST_IMAGE" not in os.environ:
        raise SystemExit(
            "KUBECONFIG is set: name in LOCKSTEP_TEST_IMAGE the image of docker/trainer.Dockerfile that this cluster "
            "can pull, or unset KUBECONFIG to bring a node up here"
        )
    return {"LOCKSTEP_TEST_CLUSTER": "real"}
