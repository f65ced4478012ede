"""One object as a listing of Cloud Storage shows it.

Pure: cloud_storage.py fetches it, sharding.py and checkpoint.py judge it.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True, order=True)
class StoredObject:
    """What storage reports of an object, without reading it.

    `path` is relative to what was listed, `crc32c` is base64 of the big-endian checksum, and `generation` grows with
    every overwrite.
    """

    path: str
    size_bytes: int
    crc32c: str
    generation: int = 0
