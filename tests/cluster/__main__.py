"""`python -m tests.cluster up | images | test | status | down`: one real Kubernetes node on this machine."""

from __future__ import annotations

import argparse
import sys

from tests.cluster.chosen_cluster import kubeconfig_elsewhere
from tests.cluster.cluster import ClusterStatus, down, look, up
from tests.cluster.images import provide_images
from tests.cluster.suites import run_suites


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.cluster", description=__doc__)
    parser.add_argument("command", choices=("up", "images", "test", "status", "down"))
    asked, arguments = parser.parse_known_args()
    if asked.command == "test":
        return run_suites(arguments)
    if (elsewhere := kubeconfig_elsewhere()) is not None:
        print(f"KUBECONFIG={elsewhere}: that cluster is used as it is; `{asked.command}` has nothing to do")
        return 0
    match asked.command:
        case "status":
            return _print(look())
        case "up":
            print(up().kubeconfig)
        case "images":
            provide_images()
        case "down":
            down()
    return 0


def _print(status: ClusterStatus) -> int:
    """Exit code 0 where all of the cluster runs, 1 where some of it does, 3 where there is none."""
    if status.layout is None:
        print("no cluster")
        return 3
    for name, process in status.components.items():
        print(f"{name:<24} {process or 'NOT RUNNING'}")
    print(f"{'kubeconfig':<24} {status.layout.kubeconfig}")
    return 0 if status.complete else 1


if __name__ == "__main__":
    sys.exit(main())
