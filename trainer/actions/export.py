"""Exports the trained model once all steps are done, as a SavedModel that MLflow opens too."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

from trainer.actions.action import Action, Moment
from trainer.job import Job
from trainer.manifest import Provenance
from trainer.mlmodel import write_mlmodel
from trainer.publication import is_whole, publish
from trainer.pulse import Pulse
from trainer.run_files import RunFiles
from trainer.serving import save_model


class Export(Action):
    """Writes `model/`; one that is there and whole is left as it is. `seconds` is what it took."""

    def __init__(self, files: RunFiles, job: Job, feature_spec: Any, workers: int, attempt: int, pulse: Pulse) -> None:
        self.seconds = 0.0
        self._files = files
        self._job = job
        self._feature_spec = feature_spec
        self._workers = workers
        self._attempt = attempt
        self._pulse = pulse

    def on_end(self, moment: Moment) -> None:
        started_s = time.monotonic()
        if not is_whole(self._files.model):
            self._export(moment)
        self.seconds = time.monotonic() - started_s

    def _export(self, moment: Moment) -> None:
        provenance = Provenance(kind="model", step=moment.step, workers=self._workers, attempt=self._attempt)
        with self._pulse.during("save"), tempfile.TemporaryDirectory() as local:
            save_model(moment.learner.model, self._job.model(), self._feature_spec, Path(local))
            write_mlmodel(Path(local), self._feature_spec)
            publish(Path(local), self._files.model, provenance)
