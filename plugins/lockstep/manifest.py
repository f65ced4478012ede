"""The manifest.json that the trainer writes last into a directory, and without which the directory does not count.

Parsing and the digest live here; whether the files are as the manifest says is checkpoint.py's to judge.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

SCHEMA = 1
FILE_NAME = "manifest.json"


class MalformedManifest(ValueError):
    """The bytes are not a manifest of a schema that is understood here."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ListedFile:
    """A file as the manifest lists it: path relative to the manifest's directory."""

    path: str
    size_bytes: int
    crc32c: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Manifest:
    """What one directory holds, at which step of training, and by how many workers; `digest` names these very bytes."""

    kind: str
    step: int
    workers: int
    attempt: int
    files: tuple[ListedFile, ...]
    digest: str

    @classmethod
    def parse(cls, content: bytes) -> Manifest:
        """Read the bytes of a manifest.json.

        Raises:
            MalformedManifest: they are no JSON, of an unknown schema, or miss a key.
        """
        document = _json_object(content)
        if document.get("schema") != SCHEMA:
            raise MalformedManifest(f"schema {document.get('schema')!r} is unknown, {SCHEMA} is understood")
        try:
            return cls(
                kind=str(document["kind"]),
                step=_whole(document["step"]),
                workers=_whole(document["workers"]),
                attempt=_whole(document["attempt"]),
                files=tuple(_listed(entry) for entry in document["files"]),
                digest=digest(content),
            )
        except (KeyError, TypeError) as error:
            raise MalformedManifest(f"{type(error).__name__}: {error}") from error

    @property
    def size_bytes(self) -> int:
        """Bytes of all listed files together."""
        return sum(file.size_bytes for file in self.files)


def digest(content: bytes) -> str:
    """The name of a directory's content: sha256 over the bytes of its manifest."""
    return "sha256:" + hashlib.sha256(content).hexdigest()


def _json_object(content: bytes) -> dict[str, Any]:
    try:
        document = json.loads(content)
    except ValueError as error:
        raise MalformedManifest(f"no JSON: {error}") from error
    if not isinstance(document, dict):
        raise MalformedManifest(f"a JSON object was expected, found {type(document).__name__}")
    return document


def _listed(entry: dict[str, Any]) -> ListedFile:
    return ListedFile(path=str(entry["path"]), size_bytes=_whole(entry["size_bytes"]), crc32c=str(entry["crc32c"]))


def _whole(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"a whole number was expected, found {value!r}")
    return value
