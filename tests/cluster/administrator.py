"""The person with all rights in the cluster under test, who does to a gang what nodes, quotas and people do."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cluster.programs import Programs, cache_folder


@dataclass(frozen=True, kw_only=True, slots=True)
class Administrator:
    """`kubectl` with the rights of `kubeconfig`."""

    kubeconfig: Path
    program: str

    def kubectl(self, *arguments: str, objects: Any = None, check: bool = True) -> str:
        """What kubectl prints; `objects` go to its standard input as JSON. Raises AssertionError if it fails."""
        command = [self.program, f"--kubeconfig={self.kubeconfig}", *arguments]
        given = None if objects is None else json.dumps(objects)
        done = subprocess.run(command, input=given, capture_output=True, text=True)
        assert done.returncode == 0 or not check, f"kubectl {' '.join(arguments)}: {done.stderr.strip()}"
        return done.stdout

    def apply(self, *objects: dict[str, Any]) -> None:
        listed = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
        self.kubectl("apply", "--server-side", "--force-conflicts", "--filename=-", objects=listed)

    def get(self, *arguments: str) -> Any:
        return json.loads(self.kubectl("get", *arguments, "--output=json"))


def administrator(kubeconfig: Path) -> Administrator:
    """With the kubectl that was built along with the node, or else the machine's own."""
    built = Path(Programs(cache=cache_folder()).program("kubectl"))
    program = str(built) if built.exists() else shutil.which("kubectl")
    assert program, "no kubectl: neither built for the node nor on the PATH"
    return Administrator(kubeconfig=kubeconfig, program=program)
