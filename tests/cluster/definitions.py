"""Resource definitions of other projects: put into the cluster, and waited for until objects of their kinds can be."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import yaml

from tests.cluster.control_plane import ControlPlane
from tests.cluster.http_probe import answers
from tests.cluster.objects import apply_files
from tests.cluster.waiting import wait_until


def define(plane: ControlPlane, *files: Path) -> None:
    """Apply definitions, and return once the API serves what they define."""
    apply_files(plane.layout, plane.programs, *files)
    for path in _collections(files):
        served = answers(f"{plane.layout.api_url}{path}?limit=1", plane.certificates.authority, plane.administrator())
        wait_until(served, what=f"the API to serve {path}", timeout_s=60)


def _collections(files: Iterable[Path]) -> Iterator[str]:
    """Where the API lists each kind, in the version that needs no conversion: its converter may not run yet."""
    for file in files:
        for definition in yaml.safe_load_all(file.read_text()):
            spec = definition["spec"]
            (stored,) = (version["name"] for version in spec["versions"] if version["storage"])
            yield f"/apis/{spec['group']}/{stored}/{spec['names']['plural']}"
