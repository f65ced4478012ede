"""Putting objects into the cluster, with the kubectl that was built with it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tests.cluster.layout import ClusterLayout
from tests.cluster.programs import Programs
from tests.cluster.waiting import wait_until


def apply_folder(layout: ClusterLayout, programs: Programs, folder: Path) -> None:
    """Apply every manifest of a folder, server-side: some definitions are too large for kubectl's annotation."""
    kubectl(layout, programs, "apply", "--server-side", "--force-conflicts", f"--filename={folder}")


def apply_definitions(layout: ClusterLayout, programs: Programs, folder: Path) -> None:
    """Apply the resource definitions of a folder, and return once the API serves objects of all their kinds."""
    apply_folder(layout, programs, folder)
    kubectl(layout, programs, "wait", "--for=condition=Established", f"--filename={folder}", "--timeout=60s")
    defined = kubectl(layout, programs, "get", f"--filename={folder}", "--output=jsonpath={.items[*].metadata.name}")
    wait_until(
        lambda: frozenset(defined.stdout.split()) <= _served(layout, programs),
        what=f"the kinds that {folder} defines",
        timeout_s=60,
    )


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


def _served(layout: ClusterLayout, programs: Programs) -> frozenset[str]:
    """Names of all resources, as definitions are called: <plural>.<group>."""
    listed = kubectl(layout, programs, "api-resources", "--cached=false", "--output=name")
    return frozenset(listed.stdout.split())
