"""Which Python environment stands in for which image: the mapping file that the stack writes.

    {"images": {"lockstep/trainer:local": {"path": ["/venv/bin"], "working_directory": "/project", "env": {…}}}}

`entrypoint` (a list of words) may be given too. Nothing is pulled; an image that is not listed does not exist.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

_KEYS = frozenset({"path", "working_directory", "env", "entrypoint"})


class InvalidImages(ValueError):
    """The mapping file is not what it has to be; the message says where."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Image:
    """What a container finds: programs (`path`, before /usr/bin and /bin), a directory, variables, a command."""

    name: str
    path: tuple[str, ...]
    working_directory: str
    env: Mapping[str, str] = field(default_factory=dict)
    entrypoint: tuple[str, ...] = ()


def read_images(file: Path) -> dict[str, Image]:
    """Return the images by normalised name; raises InvalidImages naming the file and the entry."""
    try:
        entries = json.loads(file.read_bytes())["images"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InvalidImages(f"{file}: expected a JSON object with a key `images`: {error!r}") from error
    return {normalised(name): _image(file, name, entry) for name, entry in entries.items()}


def normalised(name: str) -> str:
    """Return the name with the tag that a registry would assume."""
    has_tag = ":" in name.rsplit("/", 1)[-1] or "@" in name
    return name if has_tag else f"{name}:latest"


def _image(file: Path, name: str, entry: object) -> Image:
    if not isinstance(entry, dict) or not _KEYS.issuperset(entry):
        raise InvalidImages(f"{file}: image {name!r}: expected an object with the keys {sorted(_KEYS)}, got {entry!r}")
    if "working_directory" not in entry:
        raise InvalidImages(f"{file}: image {name!r}: working_directory is missing")
    return Image(
        name=name,
        path=tuple(entry.get("path", ())),
        working_directory=entry["working_directory"],
        env=dict(entry.get("env", {})),
        entrypoint=tuple(entry.get("entrypoint", ())),
    )
