"""The state to resume from, as it lies in storage: two generations, each whole or ignored.

A generation holds all variables of model and optimizer (seeds of random layers too) and the training state. When to
write one is the backup action's business.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping
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
    """`identity` tells whose backup it is: another training's is refused, never continued."""

    def __init__(self, files: RunFiles, workers: int, attempt: int, identity: Mapping[str, Any]) -> None:
        self._directory = files.backups
        self._workers = workers
        self._attempt = attempt
        self._identity = identity

    def save(self, learner: Learner, state: TrainingState) -> None:
        """Write a generation, unless this step's is there already, and remove older ones after it is complete."""
        destination = storage.join(self._directory, RunFiles.generation(state.step))
        if not is_whole(destination):
            with tempfile.TemporaryDirectory() as local:
                tf.train.Checkpoint(**_variables(learner)).write(f"{local}/{_VARIABLES_NAME}")
                document = {"schema": 1, "training": dict(self._identity), **state.to_json()}
                Path(local, _STATE_NAME).write_bytes(storage.encode_json(document))
                publish(Path(local), destination, self._provenance(state.step))
        self._remove_all_but_newest(state.step)

    def fetch_newest(self, into: Path) -> int:
        """Fetch the newest generation of which every byte is as its manifest says; its step, -1 when there is none."""
        for name in reversed(storage.names_in(self._directory)):
            try:
                return fetch(storage.join(self._directory, name), into / name).provenance.step
            except Damaged as damage:
                print(f"backup {name} is ignored: {damage}", flush=True)
                shutil.rmtree(into / name, ignore_errors=True)
        return -1

    def fetch(self, step: int, into: Path) -> None:
        """Fetch the generation of `step`. Raises Damaged."""
        name = RunFiles.generation(step)
        fetch(storage.join(self._directory, name), into / name)

    def restore(self, step: int, fetched: Path, learner: Learner) -> TrainingState:
        """Put a fetched generation's values into the variables. Raises InvalidRequest when it is another training's."""
        local = fetched / RunFiles.generation(step)
        document = storage.read_json(str(local / _STATE_NAME))
        self._check_identity(step, document.get("training", {}))
        checkpoint = tf.train.Checkpoint(**_variables(learner))
        checkpoint.read(str(local / _VARIABLES_NAME)).assert_consumed()
        return TrainingState(step=document["step"], epoch_sums=document["epoch_sums"], history=document["history"])

    def _check_identity(self, step: int, found: Mapping[str, Any]) -> None:
        names = sorted(found.keys() | self._identity.keys())
        if changed := [name for name in names if found.get(name) != self._identity.get(name)]:
            raise InvalidRequest(
                f"{storage.join(self._directory, RunFiles.generation(step))} was made by another training: what is "
                f"asked, the number of replicas or the data files have changed since ({', '.join(changed)}), "
                "so use a fresh run directory"
            )

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
