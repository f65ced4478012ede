"""Publishes the weights after every epoch, in Keras' own format; the last two checkpoints are kept."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Final

from trainer import storage
from trainer.actions.action import Action, Moment
from trainer.manifest import Provenance
from trainer.publication import is_whole, publish, withdraw
from trainer.pulse import Pulse
from trainer.run_files import RunFiles

KEPT: Final = 2
WEIGHTS_NAME: Final = "model.weights.h5"


class Checkpoint(Action):
    """Writes `checkpoints/step-…`; `model.load_weights` reads what is inside."""

    def __init__(self, files: RunFiles, workers: int, attempt: int, pulse: Pulse) -> None:
        self._files = files
        self._workers = workers
        self._attempt = attempt
        self._pulse = pulse

    def on_epoch(self, moment: Moment) -> None:
        self._save(moment)
        self._remove_old()

    def on_end(self, moment: Moment) -> None:
        """The last epoch's checkpoint is there already, unless somebody damaged it since."""
        if not is_whole(self._destination(moment)):
            self._save(moment)

    def _save(self, moment: Moment) -> None:
        provenance = Provenance(kind="checkpoint", step=moment.step, workers=self._workers, attempt=self._attempt)
        with self._pulse.during("save"), tempfile.TemporaryDirectory() as local:
            moment.learner.model.save_weights(Path(local, WEIGHTS_NAME))
            publish(Path(local), self._destination(moment), provenance)

    def _destination(self, moment: Moment) -> str:
        return storage.join(self._files.root, self._files.checkpoint_path(moment.step))

    def _remove_old(self) -> None:
        for name in storage.names_in(self._files.checkpoints)[:-KEPT]:
            withdraw(storage.join(self._files.checkpoints, name))
