"""A certificate authority of the stack's own, kept in a folder, and server certificates signed by it.

Only its public half (`ca.pem`) is handed to clients; nothing is added to the machine's trust store.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Sequence
from pathlib import Path

import trustme


def authority_file(folder: Path) -> Path:
    """Return where the authority's public certificate lies: what clients are told to trust."""
    return folder / "ca.pem"


def server_context(folder: Path, hosts: Sequence[str]) -> ssl.SSLContext:
    """Return a server's TLS context for `hosts`, signed by the folder's authority, which is made if it is missing."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority(folder).issue_cert(*hosts).configure_cert(context)
    return context


def authority(folder: Path) -> trustme.CA:
    """Return the folder's authority; make and keep one if there is none."""
    key_file = folder / "ca.key"
    if key_file.exists() and authority_file(folder).exists():
        return trustme.CA.from_pem(authority_file(folder).read_bytes(), key_file.read_bytes())
    made = trustme.CA(organization_name="Lockstep on one machine")
    folder.mkdir(parents=True, exist_ok=True)
    write_private(key_file, made.private_key_pem.bytes())
    authority_file(folder).write_bytes(made.cert_pem.bytes())
    return made


def write_private(path: Path, content: bytes) -> None:
    """Write a file that only its owner can read, whatever the umask."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
