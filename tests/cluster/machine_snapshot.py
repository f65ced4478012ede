"""What of a machine a cluster could leave behind, as a value that can be compared: before `up`, and after `down`.

Another cluster may run meanwhile, and its pods come and go. So cables are left out as long as they are plugged into the
bridge of a cluster: a bridge that stays is seen itself, and a cable without one as well.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from tests.cluster.control_group import hierarchies
from tests.cluster.kernel_settings import CHANGED_BY_KUBELET
from tests.cluster.layout import NAME_PREFIX

FOLDERS = ("/etc", "/opt", "/run", "/tmp", "/var/lib", "/var/log", "/var/run/netns", "/var/tmp")
OURS = ("kube", "kueue", "containerd", "cni", "k8s", "lockstep-cluster")  # others make files in these folders too


@dataclass(frozen=True, kw_only=True, slots=True)
class MachineSnapshot:
    """Each field is a set of lines."""

    mounts: frozenset[str]
    interfaces: frozenset[str]
    routes: frozenset[str]
    packet_filter: frozenset[str]
    kernel_settings: frozenset[str]
    control_groups: frozenset[str]
    folders: frozenset[str]

    def differences(self, later: MachineSnapshot) -> dict[str, list[str]]:
        """What came (`+`) and went (`-`) since this snapshot; empty if nothing did."""
        found = {}
        for each in fields(self):
            before, after = getattr(self, each.name), getattr(later, each.name)
            if before != after:
                came = [f"+ {line}" for line in sorted(after - before)]
                found[each.name] = [*came, *(f"- {line}" for line in sorted(before - after))]
        return found


def look_at_machine() -> MachineSnapshot:
    return MachineSnapshot(
        mounts=_lines(Path("/proc/self/mounts").read_text()),
        interfaces=frozenset(
            f"{each['ifname']} {sorted(address['local'] for address in each['addr_info'])}"
            for each in _interfaces()
            if not _is_cable(each)
        ),
        routes=frozenset(_routes()),
        packet_filter=_packet_filter(),
        kernel_settings=frozenset(
            f"{name} {Path('/proc/sys', name).read_text().strip()}" for name in CHANGED_BY_KUBELET
        ),
        control_groups=frozenset(
            str(group)
            for root in hierarchies()
            for group in root.iterdir()
            if group.is_dir() and "lockstep" in group.name
        ),
        folders=frozenset(
            str(entry)
            for folder in map(Path, FOLDERS)
            if folder.exists()
            for entry in folder.iterdir()
            if any(word in entry.name for word in OURS)
        ),
    )


def _interfaces() -> list[dict[str, Any]]:
    return list(json.loads(_output("ip", "-json", "address", "show")))


def _is_cable(interface: dict[str, Any]) -> bool:
    return str(interface.get("master", "")).startswith(NAME_PREFIX)


def _routes() -> Iterator[str]:
    cables = {each["ifname"] for each in _interfaces() if _is_cable(each)}
    for line in _lines(_output("ip", "route", "show", "table", "all")):
        if not cables & set(line.split()):
            yield line


def _packet_filter() -> frozenset[str]:
    """Rules and chains of both address families, without their counters and comments."""
    programs = (program for program in ("iptables-save", "ip6tables-save") if shutil.which(program))
    lines = (f"{program}: {line.split(' [')[0]}" for program in programs for line in _output(program).splitlines())
    return frozenset(line for line in lines if ": #" not in line)


def _lines(text: str) -> frozenset[str]:
    return frozenset(line.strip() for line in text.splitlines() if line.strip())


def _output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
