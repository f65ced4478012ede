"""Writes metrics.jsonl, one line per epoch. Always whole, from the history: storage cannot append."""

from __future__ import annotations

import json

from trainer import storage
from trainer.actions.action import Action, Moment
from trainer.run_files import RunFiles


class Metrics(Action):
    """What each epoch came to, for whoever draws curves."""

    def __init__(self, files: RunFiles) -> None:
        self._path = files.metrics

    def on_epoch(self, moment: Moment) -> None:
        lines = [json.dumps(record, sort_keys=True, allow_nan=False) for record in moment.state.history]
        storage.write_bytes(self._path, ("\n".join(lines) + "\n").encode())
