"""One run's directory under gs://: which files it has, and how they are read while somebody may be writing.

The Airflow side writes spec.json, once; all else is the chief's. Talking to storage is cloud_storage.py's.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from lockstep import manifest
from lockstep.attempt_record import AttemptRecord
from lockstep.checkpoint import StoredDirectory
from lockstep.cloud_storage import CloudStorage
from lockstep.errors import CheckpointRejected, InvalidSpec, StorageUnavailable
from lockstep.gs_url import GsUrl
from lockstep.names import GangId, label_value
from lockstep.stored_object import StoredObject
from lockstep.training_result import FILE_NAME as RESULT
from lockstep.training_result import TrainingResult

SPEC = "spec.json"
PROGRESS = "progress.json"
BACKUPS = "backup"
ATTEMPTS = "attempts"
_READS = 3


def run_url(run_root: str, gang: GangId) -> str:
    """Where a DAG run keeps what it trains: `<run_root>/<dag>/<run>`, both made safe for a path.

    Tasks of one run share it; each of a mapped task's instances has its own, `…/<map index>`.

    Raises:
        InvalidSpec: `run_root` is not in Cloud Storage.
    """
    run = GsUrl.parse(run_root, what="run_root") / label_value(gang.dag_id) / label_value(gang.run_id)
    return str(run if gang.map_index < 0 else run / str(gang.map_index))


@dataclass(frozen=True, kw_only=True, slots=True)
class RunDirectory:
    """The directory at `url`. All methods may raise what CloudStorage raises."""

    url: GsUrl
    storage: CloudStorage = field(default_factory=CloudStorage)

    @classmethod
    def at(cls, url: str) -> RunDirectory:
        """The directory at `gs://bucket/path`.

        Raises:
            InvalidSpec: `url` is not in Cloud Storage.
        """
        return cls(url=GsUrl.parse(url, what="run directory"))

    def claim(self, spec: Mapping[str, Any]) -> None:
        """Record what is asked of this run. The first to ask decides; asking the same again is fine.

        Raises:
            InvalidSpec: something else was asked before; names the keys that differ, never their values.
        """
        wanted = json.loads(json.dumps(spec))  # as it will be read back: tuples become lists
        content = json.dumps(wanted, sort_keys=True, indent=2).encode()
        if self.storage.create(self.url / SPEC, content, content_type="application/json"):
            return
        if changed := sorted(_changed(self.read_json(SPEC), wanted)):
            raise InvalidSpec(
                f"{self.url} was begun with another request (changed: {', '.join(changed)}): "
                "start a new DAG run, or delete that directory to train again in it"
            )

    def read_json(self, path: str) -> Any:
        """The JSON in a file, None if there is no such file.

        Raises:
            CheckpointRejected: the file is no JSON.
        """
        content = self.storage.read(self.url / path)
        try:
            return None if content is None else json.loads(content)
        except ValueError as error:
            raise CheckpointRejected(f"{self.url / path} is no JSON ({error}): train in a new run directory") from error

    def result(self) -> TrainingResult:
        """What the gang says it did.

        Raises:
            CheckpointRejected: there is no result, or it is not complete.
        """
        document = self.read_json(RESULT)
        if not isinstance(document, dict):
            raise CheckpointRejected(
                f"{self.url / RESULT} is missing, so training has not ended: run the training task"
            )
        return TrainingResult.parse(document, source=str(self.url / RESULT))

    def next_attempt(self) -> int:
        """One more than any attempt that has failed here."""
        records = (PurePosixPath(item.path).stem for item in self.storage.contents(self.url / ATTEMPTS))
        return 1 + max((int(number) for number in records if number.isdecimal()), default=0)

    def record(self, attempt: AttemptRecord) -> None:
        """Keep what a failed attempt came to; the first record of an attempt stays."""
        content = json.dumps(attempt.document(), sort_keys=True, indent=2).encode()
        name = f"{attempt.attempt:04d}.json"
        self.storage.create(self.url / ATTEMPTS / name, content, content_type="application/json")

    def backup_step(self) -> int | None:
        """The step from which the next attempt goes on, if the newest backup is whole; None without any."""
        paths = (PurePosixPath(item.path) for item in self.storage.contents(self.url / BACKUPS))
        steps = (path.parent.name for path in paths if path.name == manifest.FILE_NAME)
        return max((int(step) for step in steps if step.isdecimal()), default=None)

    def last_step(self, attempt: int) -> int | None:
        """The last step that `attempt` reported; None where it has not yet."""
        progress = self.read_json(PROGRESS)
        told = isinstance(progress, dict) and progress.get("attempt") == attempt
        return progress.get("step") if told else None

    def stored_directory(self, path: str) -> StoredDirectory:
        """A directory and its manifest as they were at one moment, whoever rewrites it meanwhile."""
        for _ in range(_READS):
            objects = self.storage.contents(self.url / path)
            listed = next((item for item in objects if item.path == manifest.FILE_NAME), None)
            if listed is None:
                return StoredDirectory(path=path, manifest=None, objects=objects)
            if (content := self._manifest(path, listed)) is not None:
                return StoredDirectory(path=path, manifest=content, objects=_without(objects, listed))
        raise StorageUnavailable(f"{self.url / path} was rewritten {_READS} times while it was read; try again")

    def digest(self, path: str) -> str | None:
        """The digest of a directory as it is now; None if it has no manifest."""
        content = self.storage.read(self.url / path / manifest.FILE_NAME)
        return None if content is None else manifest.digest(content)

    def _manifest(self, path: str, listed: StoredObject) -> bytes | None:
        return self.storage.read(self.url / path / manifest.FILE_NAME, generation=listed.generation)


def _without(objects: tuple[StoredObject, ...], excluded: StoredObject) -> tuple[StoredObject, ...]:
    return tuple(item for item in objects if item is not excluded)


def _changed(before: object, after: object, path: str = "") -> Iterator[str]:
    if isinstance(before, dict) and isinstance(after, dict):
        for key in before.keys() | after.keys():
            yield from _changed(before.get(key), after.get(key), f"{path}.{key}" if path else key)
    elif before != after:
        yield path or "everything"
