"""Gangs of two that end when the test says so, by run; one task, one that may not take long, one that
meets a slow scheduler, and one mapped over parameter sets."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path
from typing import Any

import psutil
from airflow.sdk import DAG

from lockstep.operators.gang import GangOperator
from lockstep.restart_policy import Restarts
from lockstep.running_gang import RunningGang
from lockstep.training_spec import TrainingSpec

HOME = Path(os.environ["AIRFLOW_HOME"])
HURRIED_S = 15
WORK = """
import os, pathlib, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
while not pathlib.Path(os.environ["MAY_END"]).exists():
    time.sleep(0.1)
print("learning rate", os.environ["LEARNING_RATE"], flush=True)
"""


class PatientGang(GangOperator):
    """Two workers, told a learning rate."""

    def __init__(self, *, learning_rate: float = 0.1, **kwargs: Any) -> None:
        super().__init__(timeouts={"grace_s": 5}, restarts={"backoff_s": 0.1}, **kwargs)
        self.learning_rate = learning_rate

    def execute(self, context: Any) -> Any:
        return self.run_gang(self.plan(context), context)

    def spec(self, context: Any) -> TrainingSpec:
        may_end = HOME / f"{context['ti'].run_id} may end"
        self.env = {"MAY_END": str(may_end), "LEARNING_RATE": str(self.learning_rate)}
        training = {"job": "a:B", "train_data": "gs://bucket/*", "global_batch_size": 1}
        return self._spec(context, workers=2, training=training, command=("python", "-S", "-c", WORK))

    def conclude(self, context: Any) -> float:
        return self.learning_rate


class StallingGang(PatientGang):
    """Its first try stops the scheduler, whose executor runs it, in the moment in which it defers."""

    def _defer(self, running: RunningGang, restarts: Restarts) -> Any:
        if self._another_try:
            _, scheduler, *_ = psutil.Process().parents()
            scheduler.suspend()
        return super()._defer(running, restarts)


with DAG("patient_gang", schedule=None, is_paused_upon_creation=False):
    PatientGang(task_id="train")

with DAG("hurried_gang", schedule=None, is_paused_upon_creation=False):
    PatientGang(task_id="train", execution_timeout=timedelta(seconds=HURRIED_S))

with DAG("stalling_gang", schedule=None, is_paused_upon_creation=False):
    StallingGang(task_id="train", retries=1, retry_delay=timedelta(seconds=1))

with DAG("mapped_gangs", schedule=None, is_paused_upon_creation=False):
    PatientGang.partial(task_id="train").expand(learning_rate=[0.1, 0.2])
