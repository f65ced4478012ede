"""The kubeconfig that clients use, and the token in it; both readable by their owner only."""

from __future__ import annotations

import base64
import os
import secrets
from pathlib import Path

import yaml

from lockstep.local.certificates import authority_file, write_private

CONTEXT = "lockstep-local"


def token(state: Path) -> str:
    """Return the state folder's bearer token; make and keep one if there is none."""
    file = state / "token"
    if not file.exists():
        state.mkdir(parents=True, exist_ok=True)
        write_private(file, secrets.token_urlsafe(32).encode())
    return file.read_text()


def write_kubeconfig(path: Path, server: str, state: Path) -> None:
    """Write a kubeconfig for `server` whose one context is `lockstep-local`, in one step."""
    authority = base64.b64encode(authority_file(state).read_bytes()).decode()
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": CONTEXT, "cluster": {"server": server, "certificate-authority-data": authority}}],
        "users": [{"name": CONTEXT, "user": {"token": token(state)}}],
        "contexts": [{"name": CONTEXT, "context": {"cluster": CONTEXT, "user": CONTEXT, "namespace": "default"}}],
        "current-context": CONTEXT,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f"{path.name}.unfinished")
    write_private(unfinished, yaml.safe_dump(content).encode())
    os.replace(unfinished, path)
