"""The state to resume from, as it lies in storage: two generations, each whole or ignored.

A generation holds all variables of model and optimizer (seeds of random layers too) and the training state. When to
write one is the backup action's business.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import tensorflow as tf

from trainer import storage
from trainer.errors import InvalidRequest
from trainer.learner import Learner
from trainer.manifest import Provenance
from trainer.publication import Damaged, fetch, is_whole, publish, withdraw
from trainer.run_files import RunFiles
from trainer.training_state import TrainingState

GENERATIONS: Final = 2
_STATE_NAME: Final = "state.json"
_VARIABLES_NAME: Final = "variables"


class BackupStore:
    """`request_digest` tells whose backup it is: another training's is refused, never continued."""

    def __init__(self, files: RunFiles, workers: int, attempt: int, request_digest: str) -> None:
        self._directory = files.backups
        self._workers = workers
        self._attempt = attempt
        self._request_digest = request_digest

    def save(self, learner: Learner, state: TrainingState) -> None:
        """Write a generation, unless this step's is there already, and remove older ones after it is complete."""
        destination = storage.join(self._directory, RunFiles.generation(state.step))
        if not is_whole(destination):
            with tempfile.TemporaryDirectory() as local:
                tf.train.Checkpoint(**_variables(learner)).write(f"{local}/{_VARIABLES_NAME}")
                document = {"schema": 1, "request": self._request_digest, **state.to_json()}
                Path(local, _STATE_NAME).write_bytes(storage.encode_json(document))
                publish(Path(local), destination, self._provenance(state.step))
        self._remove_all_but_newest(state.step)

    def newest(self) -> int:
        """The step of the newest generation of which every byte is as its manifest says; -1 when there is none."""
        for name in reversed(storage.names_in(self._directory)):
            try:
                with tempfile.TemporaryDirectory() as local:
                    manifest = fetch(storage.join(self._directory, name), Path(local))
            except Damaged as damage:
                print(f"backup {name} is ignored: {damage}", flush=True)
            else:
                return manifest.provenance.step
        return -1

    def restore(self, step: int, learner: Learner) -> TrainingState:
        """Put a generation's values into the variables. Raises InvalidRequest when it is another training's."""
        source = storage.join(self._directory, RunFiles.generation(step))
        with tempfile.TemporaryDirectory() as local:
            manifest = fetch(source, Path(local))
            document = storage.read_json(f"{local}/{_STATE_NAME}")
            if document["request"] != self._request_digest or manifest.provenance.workers != self._workers:
                raise InvalidRequest(
                    f"{source} was made by another training (of {manifest.provenance.workers} workers): "
                    "what is asked has changed, so use a fresh run directory"
                )
            checkpoint = tf.train.Checkpoint(**_variables(learner))
            checkpoint.read(f"{local}/{_VARIABLES_NAME}").assert_consumed()
        return TrainingState(step=document["step"], epoch_sums=document["epoch_sums"], history=document["history"])

    def _remove_all_but_newest(self, step: int) -> None:
        current = RunFiles.generation(step)
        older = [name for name in storage.names_in(self._directory) if name < current]
        for name in older[: len(older) - (GENERATIONS - 1)]:
            withdraw(storage.join(self._directory, name))

    def _provenance(self, step: int) -> Provenance:
        return Provenance(kind="backup", step=step, workers=self._workers, attempt=self._attempt)


def _variables(learner: Learner) -> dict[str, Any]:
    """Raw variables under names that say which they are; the number keeps equal paths apart."""
    return {f"{number:05d}|{path.replace('/', '|')}": value for number, (path, value) in enumerate(_paths(learner))}


def _paths(learner: Learner) -> Iterator[tuple[str, Any]]:
    for variable in [*learner.model.variables, *learner.optimizer.variables]:
        yield variable.path, variable.value
