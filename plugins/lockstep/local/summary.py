"""What a finished run has to show, as text: from what its tasks returned, nothing read anew."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lockstep.local.airflow_api import TaskState

_WIDTH = 18


@dataclass(frozen=True, kw_only=True, slots=True)
class RunSummary:
    """What the tasks `train`, `validate` and `register` returned, and what was seen from outside."""

    training: Mapping[str, Any]
    validation: Mapping[str, Any]
    registration: Mapping[str, Any]
    tasks: Sequence[TaskState]
    seconds: float
    peak_memory_bytes: int
    run_url: str
    model_url: str

    def lines(self) -> list[str]:
        rows = [*self._training(), *self._outcome(), *self._costs(), *self._links()]
        return [f"  {name:<{_WIDTH}} {value}" for name, value in rows]

    def _training(self) -> Iterator[tuple[str, str]]:
        training, scaling, sharding = self.training, self.training["scaling"], self.training["sharding"]
        yield "workers", f"{training['workers']} ({training['replicas']} replicas), {training['strategy']}"
        yield "sharding", f"{sharding['policy']}, {sharding['files']} files: {sharding['reason']}"
        yield "batch", f"{scaling['per_replica_batch_size']} per replica, {scaling['global_batch_size']} together"
        yield "learning rate", f"{scaling['learning_rate']:g} after {scaling['warmup_steps']} warm-up steps"
        yield (
            "steps",
            f"{training['step']} = {training['epochs']} epochs of {scaling['steps_per_epoch']} steps, "
            f"{scaling['train_samples']} samples",
        )
        if training.get("resumed_from_step") is not None:
            yield "resumed", f"from the backup of step {training['resumed_from_step']}"

    def _outcome(self) -> Iterator[tuple[str, str]]:
        metrics, found, registered = self.training["metrics"], self.validation, self.registration
        if "eval_accuracy" in metrics:
            yield "held-out accuracy", f"{metrics['eval_accuracy']:.4f}"
        yield "checkpoint", f"{self.training.get('run_directory', '')}/{found['checkpoint']}".lstrip("/")
        yield "verified", f"{found['files']} files, {found['size_bytes']:,} bytes, {found['digest'][:19]}…"
        yield "model", f"{registered['name']} version {registered['version']}, alias {registered['alias']}"

    def _costs(self) -> Iterator[tuple[str, str]]:
        phases = [f"{task.task_id} {task.seconds:.0f}" for task in self.tasks if task.seconds is not None]
        yield "seconds", f"{self.seconds:.0f}: {', '.join(phases)}"
        inside = self.training.get("seconds") or {}
        yield "seconds in train", ", ".join(f"{phase} {seconds:.1f}" for phase, seconds in inside.items())
        yield "peak memory", f"{self.peak_memory_bytes / 2**30:.1f} GiB, all processes together"

    def _links(self) -> Iterator[tuple[str, str]]:
        yield "Airflow run", self.run_url
        yield "MLflow model", self.model_url
