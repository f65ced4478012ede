"""The image of every pod's first process: one static program and nothing else, as an OCI archive.

Made here rather than by buildah, so that a node comes up without any image tool.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from pathlib import Path

from tests.cluster.container_runtime import PAUSE_IMAGE
from tests.cluster.programs import Programs

_LAYER = "application/vnd.oci.image.layer.v1.tar"
_CONFIG = "application/vnd.oci.image.config.v1+json"
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"


def write_pause_archive(programs: Programs, target: Path) -> Path:
    """An OCI archive of PAUSE_IMAGE at `target`, the same bytes every time."""
    layer = _tar({"pause": Path(programs.program("pause")).read_bytes()}, mode=0o755)
    config = _json(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": {"Entrypoint": ["/pause"], "User": "65535:65535"},
            "rootfs": {"type": "layers", "diff_ids": [_digest(layer)]},
        }
    )
    manifest = _json(
        {
            "schemaVersion": 2,
            "mediaType": _MANIFEST,
            "config": _descriptor(config, _CONFIG),
            "layers": [_descriptor(layer, _LAYER)],
        }
    )
    listed = {**_descriptor(manifest, _MANIFEST), "annotations": {"io.containerd.image.name": PAUSE_IMAGE}}
    files = {
        "oci-layout": _json({"imageLayoutVersion": "1.0.0"}),
        "index.json": _json({"schemaVersion": 2, "manifests": [listed]}),
        **{f"blobs/sha256/{_digest(blob).removeprefix('sha256:')}": blob for blob in (layer, config, manifest)},
    }
    target.write_bytes(_tar(files, mode=0o644))
    return target


def _descriptor(blob: bytes, media_type: str) -> dict[str, object]:
    return {"mediaType": media_type, "digest": _digest(blob), "size": len(blob)}


def _digest(blob: bytes) -> str:
    return f"sha256:{hashlib.sha256(blob).hexdigest()}"


def _json(content: dict[str, object]) -> bytes:
    return json.dumps(content, sort_keys=True).encode()


def _tar(files: dict[str, bytes], mode: int) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), mode
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()
