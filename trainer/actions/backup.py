"""Backs the state up every so many steps, when the gang stops, and at the end, so that no attempt begins anew."""

from __future__ import annotations

from trainer.actions.action import Action, Moment
from trainer.backup_store import BackupStore
from trainer.pulse import Pulse


class Backup(Action):
    """`every_steps` bounds what a preemption can cost."""

    def __init__(self, store: BackupStore, every_steps: int, pulse: Pulse) -> None:
        self._store = store
        self._every_steps = every_steps
        self._pulse = pulse

    def on_steps(self, moment: Moment) -> None:
        if moment.step % self._every_steps == 0 and moment.step < moment.steps:
            self._save(moment)

    def on_stop(self, moment: Moment) -> None:
        self._save(moment)

    def on_end(self, moment: Moment) -> None:
        self._save(moment)

    def _save(self, moment: Moment) -> None:
        with self._pulse.during("save"):
            self._store.save(moment.learner, moment.state)
