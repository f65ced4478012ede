"""A backup fits its own training alone: the same request, planned alike, over the same files."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.trainer.requests import training
from trainer import storage
from trainer.backup_store import BackupStore
from trainer.errors import InvalidRequest
from trainer.run_files import RunFiles
from trainer.scaling import plan_scaling
from trainer.sharding import plan_sharding
from trainer.training_identity import identify_training

FILES = ("gs://b/train-0", "gs://b/train-1")


def identity(
    *, replicas: int = 2, samples: int = 1000, files: tuple[str, ...] = FILES, workers: int = 2, **asked: Any
) -> dict[str, Any]:
    request = training(**{"global_batch_size": 64, **asked})
    plan = plan_scaling(request, replicas, samples)
    return identify_training(request, plan, plan_sharding("data", len(files), workers, list), files)


def test_the_order_of_the_files_does_not_matter_and_json_keeps_it_all() -> None:
    assert identity(files=FILES[::-1]) == identity() == json.loads(json.dumps(identity()))


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        pytest.param({"seed": 1}, "request", id="another request"),
        pytest.param({"replicas": 4}, "per_replica_batch_size, replicas", id="more GPUs for each worker"),
        pytest.param({"samples": 1100}, "steps_per_epoch, train_samples, warmup_steps", id="more samples"),
        pytest.param({"samples": 1001}, "train_samples", id="one sample more"),
        pytest.param({"files": (*FILES, "gs://b/train-2")}, "files", id="a file more"),
        pytest.param({"files": ("gs://b/train-0", "gs://b/train-3")}, "files", id="another file"),
        pytest.param({"workers": 1}, "workers", id="fewer workers"),
    ],
)
def test_a_backup_of_another_plan_is_refused_and_the_change_is_named(
    changed: dict[str, Any], named: str, tmp_path: Path
) -> None:
    """With fewer steps than the backup had, the loop never came to its end."""
    fetched = tmp_path / RunFiles.generation(10)
    storage.write_json(str(fetched / "state.json"), {"training": identity(), "step": 10})
    store = BackupStore(RunFiles(root="gs://b/run"), 2, 2, identity(**changed))
    with pytest.raises(InvalidRequest, match=rf"00000010 was made by another training: .*\({named}\).*fresh run dir"):
        store.restore(10, tmp_path, learner=None)  # type: ignore[arg-type]


def test_a_plan_is_part_of_it_as_a_whole() -> None:
    plan = plan_scaling(training(), 2, 1000)
    sharding = plan_sharding("data", 2, 2, list)
    other = replace(plan, learning_rate=plan.learning_rate * 2)
    assert identify_training(training(), plan, sharding, FILES) != identify_training(training(), other, sharding, FILES)
