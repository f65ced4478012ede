"""The programs that come from Debian's packages; whatever is missing is installed, what is there is left alone."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from tests.cluster.progress import step

# program or folder that must exist -> the package that brings it
PACKAGES = {
    "containerd": "containerd",
    "runc": "runc",
    "buildah": "buildah",
    "debootstrap": "debootstrap",
    "ip": "iproute2",
    "ipset": "ipset",
    "iptables": "iptables",
    "nsenter": "util-linux",
    "/usr/lib/cni/bridge": "containernetworking-plugins",
    "/etc/containers/policy.json": "golang-github-containers-common",
}
WITHOUT_STARTING_SERVICES = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}


def missing_packages() -> tuple[str, ...]:
    return tuple(sorted(package for needed, package in PACKAGES.items() if not _present(needed)))


def install_missing_packages(log: Path) -> None:
    """Install what is missing. Raises SystemExit naming the log where apt fails, or where this is not Debian."""
    packages = missing_packages()
    if not packages:
        return
    if shutil.which("apt-get") is None:
        raise SystemExit(f"this machine has no apt-get; install by hand: {', '.join(packages)}")
    with step(f"Debian packages: {' '.join(packages)}"), log.open("w") as output:
        for command in (["apt-get", "update"], ["apt-get", "install", "--yes", "--no-install-recommends", *packages]):
            done = subprocess.run(command, stdout=output, stderr=subprocess.STDOUT, env=WITHOUT_STARTING_SERVICES)
            if done.returncode != 0:
                raise SystemExit(f"{' '.join(command)} failed with exit code {done.returncode}; see {log}")


def _present(needed: str) -> bool:
    return Path(needed).exists() if needed.startswith("/") else shutil.which(needed) is not None
