"""An address in Cloud Storage: `gs://bucket/object/name`, parsed and checked.

Pure: whether the bucket exists, and who may use it, is cloud_storage.py's to find out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from lockstep.errors import InvalidSpec

_BUCKET = re.compile(r"[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]")
_MAX_NAME_BYTES = 1024
_WILDCARD = re.compile(r"[*?\[]")


@dataclass(frozen=True, kw_only=True, slots=True)
class GsUrl:
    """A bucket, and in it the name of an object, a folder (no slash at its end) or a glob; "" is the bucket itself."""

    bucket: str
    name: str = ""

    @classmethod
    def parse(cls, text: str, *, what: str = "address") -> GsUrl:
        """Read `gs://bucket/name`; `what` says in the error whose address it was.

        Raises:
            InvalidSpec: it is no such address.
        """
        if problem := _problem(text):
            raise InvalidSpec(f"{what} {text!r} {problem}; write it as gs://bucket/folder")
        bucket, _, name = text.removeprefix("gs://").partition("/")
        return cls(bucket=bucket, name=name.rstrip("/"))

    def __str__(self) -> str:
        return f"gs://{self.bucket}/{self.name}" if self.name else f"gs://{self.bucket}"

    def __truediv__(self, relative: str) -> GsUrl:
        return GsUrl(bucket=self.bucket, name=f"{self.name}/{relative}" if self.name else relative)

    @property
    def fixed_prefix(self) -> str:
        """The part of the name before the first wildcard: what a listing has to begin with."""
        return _WILDCARD.split(self.name, maxsplit=1)[0]


def _problem(text: object) -> str | None:
    if not isinstance(text, str) or not text.startswith("gs://"):
        return "is not in Cloud Storage, and pods on several machines share nothing else"
    bucket, _, name = text.removeprefix("gs://").partition("/")
    return _bucket_problem(bucket) or _name_problem(name.rstrip("/"))


def _bucket_problem(bucket: str) -> str | None:
    if _BUCKET.fullmatch(bucket):
        return None
    return f"has the bucket name {bucket!r}, which Cloud Storage does not allow" if bucket else "names no bucket"


def _name_problem(name: str) -> str | None:
    if len(name.encode()) > _MAX_NAME_BYTES:
        return f"is longer than the {_MAX_NAME_BYTES} bytes that Cloud Storage allows"
    if any(not character.isprintable() for character in name):
        return "contains a control character"
    if name and any(part in ("", ".", "..") for part in name.split("/")):
        return "has an empty part, '.' or '..' between its slashes"
    return None
