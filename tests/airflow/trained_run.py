"""A run directory as a finished gang leaves it, written into the emulator."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

import google_crc32c

from lockstep.cloud_storage import CloudStorage
from lockstep.gs_url import GsUrl

SPEC = {
    "schema": 1,
    "workers": 2,
    "training": {
        "job": "trainer.examples.digits:DigitsJob",
        "job_params": {"units": 32},
        "train_data": "gs://data/train-*",
        "eval_data": None,
        "epochs": 5,
        "per_replica_batch_size": 32,
    },
}
RESULT = {
    "schema": 1,
    "step": 420,
    "epochs": 5,
    "workers": 2,
    "scaling": {"steps_per_epoch": 84},
    "metrics": {"loss": 0.1, "eval_accuracy": 0.97},
    "checkpoint": "checkpoints/step-00000420",
    "model": "model",
}


def put(url: str, content: bytes | Mapping[str, Any]) -> None:
    """Write an object, over whatever is there."""
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    target = GsUrl.parse(url)
    storage = CloudStorage()
    storage.delete(target)
    storage.create(target, data)


def put_directory(url: str, kind: str, files: Mapping[str, bytes]) -> None:
    """Write files and, last, the manifest that lists them."""
    for path, content in files.items():
        put(f"{url}/{path}", content)
    listed = [{"path": path, "size_bytes": len(content), "crc32c": crc32c(content)} for path, content in files.items()]
    put(
        f"{url}/manifest.json",
        {"schema": 1, "kind": kind, "step": 420, "workers": 2, "attempt": 1, "files": sorted(listed, key=str)},
    )


def put_run(url: str, *, model: bytes = b"a saved model", result: Mapping[str, Any] = RESULT) -> None:
    """A complete run that asked for two workers and five epochs."""
    put(f"{url}/spec.json", SPEC)
    put_directory(
        f"{url}/checkpoints/step-00000420", "checkpoint", {"weights.index": b"i", "weights.data": b"d" * 1000}
    )
    put_directory(f"{url}/model", "model", {"saved_model.pb": model, "variables/variables.index": b"v"})
    put(f"{url}/result.json", result)


def crc32c(content: bytes) -> str:
    return base64.b64encode(google_crc32c.value(content).to_bytes(4, "big")).decode()
