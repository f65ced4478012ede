"""Tells how training goes: a line in the log and progress.json, every few seconds at most.

The file is written on a thread of its own, so that a slow storage costs no step; a beat is left out rather than queued.
"""

from __future__ import annotations

import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final

import tensorflow as tf

from trainer import storage
from trainer.actions.action import Action, Moment
from trainer.run_files import RunFiles
from trainer.termination import one_line

EVERY_S: Final = 5.0


class Progress(Action):
    """Both the log's line and the file say step, loss, speed and the time left."""

    def __init__(self, files: RunFiles, attempt: int) -> None:
        self._path = files.progress
        self._attempt = attempt
        self._told_at_s = float("-inf")
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="progress")
        self._written: Future[None] | None = None

    def on_steps(self, moment: Moment) -> None:
        if time.monotonic() - self._told_at_s >= EVERY_S:
            self._told_at_s = time.monotonic()
            print(describe(moment), flush=True)
            self._write(moment)

    def on_epoch(self, moment: Moment) -> None:
        print(describe_epoch(moment), flush=True)

    def on_stop(self, moment: Moment) -> None:
        self._finish(moment)

    def on_end(self, moment: Moment) -> None:
        self._finish(moment)

    def _finish(self, moment: Moment) -> None:
        """The last beat is written before anything that a reader takes for the end."""
        self._writer.shutdown(wait=True)
        storage.write_json(self._path, self._document(moment))

    def _write(self, moment: Moment) -> None:
        if self._written is None or self._written.done():
            self._written = self._writer.submit(self._try_to_write, self._document(moment))

    def _try_to_write(self, document: dict[str, Any]) -> None:
        """A beat that gets lost is no reason to end a training."""
        try:
            storage.write_json(self._path, document)
        except (tf.errors.OpError, OSError) as error:
            print(f"{self._path} could not be written: {one_line(error)}", file=sys.stderr, flush=True)

    def _document(self, moment: Moment) -> dict[str, Any]:
        return {
            "schema": 1,
            "attempt": self._attempt,
            "step": moment.step,
            "steps": moment.steps,
            "epoch": moment.epoch,
            "epochs": moment.epochs,
            "loss": moment.loss,
            "steps_per_s": round(moment.steps_per_s, 3),
            "eta_s": None if moment.eta_s is None else round(moment.eta_s, 1),
        }


def describe(moment: Moment) -> str:
    loss = "" if moment.loss is None else f", loss {moment.loss:.4f}"
    pace = "" if moment.eta_s is None else f", {moment.steps_per_s:.1f} steps/s, {moment.eta_s:.0f} s left"
    return f"step {moment.step}/{moment.steps} (epoch {moment.epoch}/{moment.epochs}){loss}{pace}"


def describe_epoch(moment: Moment) -> str:
    record = moment.state.history[-1]
    values = [f"{name} {value:.4f}" for name, value in record.items() if isinstance(value, float)]
    return f"epoch {record['epoch']}/{moment.epochs}: {', '.join(values)}"
