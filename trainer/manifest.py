"""The manifest of a published directory: what is in it, with sizes and checksums as Cloud Storage computes them.

A value with its parser; it reads and writes nothing.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

from trainer.storage import encode_json

MANIFEST_NAME: Final = "manifest.json"
Kind = Literal["model", "checkpoint", "backup"]


@dataclass(frozen=True, kw_only=True, slots=True)
class FileEntry:
    """One file: path relative to the manifest, and the base64 of its big-endian CRC32C."""

    path: str
    size_bytes: int
    crc32c: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Provenance:
    """Which training a directory comes from, and how far that had come."""

    kind: Kind
    step: int
    workers: int
    attempt: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Manifest:
    """Written last: a directory without it does not count."""

    provenance: Provenance
    files: tuple[FileEntry, ...]

    def encode(self) -> bytes:
        files = [asdict(entry) for entry in sorted(self.files, key=lambda entry: entry.path)]
        return encode_json({"schema": 1, **asdict(self.provenance), "files": files})


def parse_manifest(content: bytes) -> Manifest:
    """Raises ValueError when it is not a manifest of schema 1."""
    try:
        return _from_json(json.loads(content))
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"not a manifest of schema 1: {error!r}") from error


def _from_json(document: dict[str, Any]) -> Manifest:
    if document["schema"] != 1:
        raise ValueError(f"schema {document['schema']}")
    provenance = Provenance(**{name: document[name] for name in ("kind", "step", "workers", "attempt")})
    return Manifest(provenance=provenance, files=tuple(FileEntry(**entry) for entry in document["files"]))
