"""Publishing a directory so that a reader can tell whether it is whole: the files first, their manifest last.

Directories are made locally and copied; the checksum is computed while copying, and every copy is looked at afterwards.
"""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Final

import google_crc32c

from trainer import storage
from trainer.manifest import MANIFEST_NAME, FileEntry, Manifest, Provenance, parse_manifest
from trainer.storage import gfile

_CHUNK_BYTES: Final = 8 * 2**20


class Damaged(Exception):
    """A published directory lacks its manifest, or is not what its manifest says."""


def publish(source: Path, destination: str, provenance: Provenance) -> Manifest:
    """Copy a local directory, replacing what was there. Raises OSError when a copy is not there, or not whole."""
    withdraw(destination)
    paths = sorted(path for path in source.rglob("*") if path.is_file())
    entries = tuple(_copy(path, destination, path.relative_to(source).as_posix()) for path in paths)
    manifest = Manifest(provenance=provenance, files=entries)
    storage.write_bytes(storage.join(destination, MANIFEST_NAME), manifest.encode())
    return manifest


def withdraw(directory: str) -> None:
    """Remove a published directory, manifest first, so that it never counts while it is not whole."""
    storage.remove(storage.join(directory, MANIFEST_NAME))
    storage.remove_tree(directory)


def fetch(source: str, destination: Path) -> Manifest:
    """Copy a published directory to a local one, checking every byte. Raises Damaged."""
    manifest = read_manifest(source)
    for entry in manifest.files:
        local = destination / entry.path
        local.parent.mkdir(parents=True, exist_ok=True)
        if storage.size_bytes(storage.join(source, entry.path)) is None:
            raise Damaged(f"{source}/{entry.path} is missing")
        found = _transfer(storage.join(source, entry.path), str(local), entry.path)
        if found != entry:
            raise Damaged(f"{source}/{entry.path} has {_seen(found)}, its manifest says {_seen(entry)}")
    return manifest


def read_manifest(directory: str) -> Manifest:
    """Raises Damaged when there is none, or it cannot be read."""
    content = storage.read_bytes(storage.join(directory, MANIFEST_NAME))
    if content is None:
        raise Damaged(f"{directory} has no {MANIFEST_NAME}: it was never finished")
    try:
        return parse_manifest(content)
    except ValueError as error:
        raise Damaged(f"{directory}/{MANIFEST_NAME}: {error}") from error


def check_sizes(directory: str) -> Manifest:
    """A quick look: the manifest is there, and every file has the size it says. Raises Damaged."""
    manifest = read_manifest(directory)
    for entry in manifest.files:
        found = storage.size_bytes(storage.join(directory, entry.path))
        if found != entry.size_bytes:
            raise Damaged(f"{directory}/{entry.path} has {found} bytes, its manifest says {entry.size_bytes}")
    return manifest


def is_whole(directory: str) -> bool:
    """Whether `check_sizes` finds nothing wrong."""
    try:
        check_sizes(directory)
    except Damaged:
        return False
    return True


def _copy(path: Path, destination: str, relative: str) -> FileEntry:
    target = storage.join(destination, relative)
    storage.make_parent(target)
    entry = _transfer(str(path), target, relative)
    found = storage.size_bytes(target)
    if found != entry.size_bytes:
        raise OSError(f"{target} was written with {entry.size_bytes} bytes and now has {found}")
    return entry


def _transfer(source: str, target: str, relative: str) -> FileEntry:
    checksum, size_bytes = google_crc32c.Checksum(), 0
    with gfile.GFile(source, "rb") as reader, gfile.GFile(target, "wb") as writer:
        writer.write(b"")  # an empty file would not come into being otherwise
        while chunk := reader.read(_CHUNK_BYTES):
            writer.write(chunk)
            checksum.update(chunk)
            size_bytes += len(chunk)
    return FileEntry(path=relative, size_bytes=size_bytes, crc32c=base64.b64encode(checksum.digest()).decode())


def _seen(entry: FileEntry) -> str:
    return f"{entry.size_bytes} bytes and crc32c {entry.crc32c}"
