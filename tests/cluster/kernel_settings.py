"""Kernel settings that a kubelet changes for the whole machine, remembered at `up` and put back at `down`."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cluster.layout import ClusterLayout

CHANGED_BY_KUBELET = (
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
)


def remember_kernel_settings(layout: ClusterLayout) -> None:
    """Called before the kubelet's first start; a later `up` keeps what the first one saw."""
    file = layout.state / "kernel-settings.json"
    if not file.exists():
        file.write_text(json.dumps({name: _path(name).read_text().strip() for name in CHANGED_BY_KUBELET}))


def restore_kernel_settings(layout: ClusterLayout) -> None:
    file = layout.state / "kernel-settings.json"
    if not file.exists():
        return
    for name, value in json.loads(file.read_text()).items():
        if _path(name).read_text().strip() != value:
            _path(name).write_text(value)
    file.unlink()


def _path(name: str) -> Path:
    return Path("/proc/sys", name)
