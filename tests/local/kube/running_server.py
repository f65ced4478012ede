"""The one-machine Kubernetes API as a process of its own, as the stack starts it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[3]
IMAGE = "lockstep/trainer:local"

_START_TIMEOUT_S = 60.0
_END_TIMEOUT_S = 30.0


@dataclass(kw_only=True)
class RunningServer:
    """A server that answers. `state` outlives it, so that another one can be started on it."""

    state: Path
    images: Path
    kubeconfig: Path
    process: subprocess.Popen[bytes]

    def end(self) -> int:
        """End it as `down` does and return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(_END_TIMEOUT_S)

    def crash(self) -> None:
        """Kill it, as the machine's OOM killer would."""
        self.process.kill()
        self.process.wait(_END_TIMEOUT_S)


def start_server(folder: Path) -> RunningServer:
    """Start a server with its state in `folder`, on a free port, and wait until it answers."""
    folder.mkdir(parents=True, exist_ok=True)
    kubeconfig, images, log = folder / "kubeconfig", folder / "images.json", folder / "server.log"
    kubeconfig.unlink(missing_ok=True)
    images.write_text(json.dumps({"images": {IMAGE: this_python(folder)}}))
    command = [sys.executable, "-m", "lockstep.local.kube", "--state", str(folder / "state")]
    command += ["--images", str(images), "--kubeconfig", str(kubeconfig)]
    with log.open("ab") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, env=server_environment())
    _wait_for(kubeconfig, process, log)
    return RunningServer(state=folder / "state", images=images, kubeconfig=kubeconfig, process=process)


def server_environment() -> dict[str, str]:
    """What a server process needs to find the package, wherever the tests are run from."""
    return {**os.environ, "PYTHONPATH": str(ROOT / "plugins")}


def this_python(folder: Path) -> dict[str, object]:
    """An image in which `python` is the interpreter that runs the tests."""
    return {"path": [str(Path(sys.executable).parent)], "working_directory": str(folder), "env": {"FROM_IMAGE": "yes"}}


def _wait_for(kubeconfig: Path, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _START_TIMEOUT_S
    while not kubeconfig.exists():
        if process.poll() is not None or time.monotonic() > deadline:
            process.kill()
            raise RuntimeError(f"the one-machine API did not start:\n{log.read_text()[-3000:]}")
        time.sleep(0.02)
