"""Putting objects into the cluster, with the kubectl that was built with it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tests.cluster.layout import ClusterLayout
from tests.cluster.programs import Programs


def apply_files(layout: ClusterLayout, programs: Programs, *files: Path) -> None:
    """Apply manifests (files, or all of a folder), server-side: some are too large for kubectl's annotation."""
    named = (f"--filename={file}" for file in files)
    kubectl(layout, programs, "apply", "--server-side", "--force-conflicts", *named)


def apply_objects(layout: ClusterLayout, programs: Programs, objects: Iterable[Mapping[str, Any]]) -> None:
    listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})
    kubectl(layout, programs, "apply", "--server-side", "--force-conflicts", "--filename=-", standard_input=listed)


def kubectl(
    layout: ClusterLayout, programs: Programs, *arguments: str, standard_input: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Run kubectl as the cluster's administrator. Raises SystemExit with its words where it fails."""
    own = (f"--kubeconfig={layout.kubeconfig}", f"--cache-dir={layout.folder('run') / 'kubectl'}")
    command = [programs.program("kubectl"), *own, *arguments]
    done = subprocess.run(command, input=standard_input, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"kubectl {' '.join(arguments)} failed: {done.stderr.strip()}")
    return done
