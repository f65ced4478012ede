"""Images on their way from buildah to containerd: a folder in OCI's layout; only missing blobs are carried over.

A trainer image is 2.5 GB, and a changed line of code a few kilobytes of it.
"""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator, Set
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

IMAGE_NAME = "io.containerd.image.name"


@dataclass(frozen=True, kw_only=True, slots=True)
class OciLayout:
    """The image at `folder`; there is one image in it, whatever its index calls it."""

    folder: Path

    def write_archive(self, target: Path, *, name: str, without: Set[str] = frozenset()) -> None:
        """An archive that gives the image `name`; blobs whose digest is in `without` are left out."""
        manifest = self._manifest()
        index = {"schemaVersion": 2, "manifests": [{**manifest, "annotations": {IMAGE_NAME: name}}]}
        with tarfile.open(target, "w") as archive:
            _add(archive, "oci-layout", {"imageLayoutVersion": "1.0.0"})
            _add(archive, "index.json", index)
            for digest in self._digests(manifest):
                if digest not in without:
                    archive.add(self._blob(digest), arcname=str(self._blob(digest).relative_to(self.folder)))

    def prune(self) -> None:
        """Remove the blobs of earlier builds."""
        used = {self._blob(digest) for digest in self._digests(self._manifest())}
        for blob in (self.folder / "blobs" / "sha256").iterdir():
            if blob not in used:
                blob.unlink()

    def _manifest(self) -> dict[str, Any]:
        (manifest,) = json.loads((self.folder / "index.json").read_text())["manifests"]
        return dict(manifest)

    def _digests(self, manifest: dict[str, Any]) -> Iterator[str]:
        content = json.loads(self._blob(manifest["digest"]).read_text())
        yield manifest["digest"]
        yield content["config"]["digest"]
        yield from (layer["digest"] for layer in content["layers"])

    def _blob(self, digest: str) -> Path:
        return self.folder / "blobs" / digest.replace(":", "/")


def _add(archive: tarfile.TarFile, name: str, content: dict[str, Any]) -> None:
    data = json.dumps(content).encode()
    entry = tarfile.TarInfo(name)
    entry.size = len(data)
    archive.addfile(entry, BytesIO(data))
