"""Bad input gets a clear error: what was wrong, where, and what to do."""

from __future__ import annotations

from typing import Any

import pytest

from lockstep.errors import InvalidSpec
from lockstep.parsing import parse, to_json
from lockstep.training_spec import TrainingSpec
from tests.unit.builders import spec

TRAINING = {"job": "my.job:Job", "train_data": "gs://bucket/d/*", "per_replica_batch_size": 8}


@pytest.mark.parametrize(
    ("given", "told"),
    [
        pytest.param({"workers": 0}, "spec.workers: input should be greater than or equal to 1", id="no workers"),
        pytest.param({"workers": "many"}, "spec.workers: ", id="workers is no number"),
        pytest.param({"worker": 2}, "unknown parameter 'worker' (did you mean 'workers'?); valid ones: ", id="a typo"),
        pytest.param(
            {"training": TRAINING | {"epoch": 1}},
            "spec.training: unknown parameter 'epoch' (did you mean 'epochs'?); valid ones: backup_every_steps, ",
            id="a typo inside training",
        ),
        pytest.param(
            {"run_directory": "/tmp/run"}, "run_directory '/tmp/run' is not in Cloud Storage", id="a local path"
        ),
        pytest.param({"image": ""}, "spec.image: ", id="no image"),
        pytest.param(
            {"training": TRAINING | {"job": "no colon"}}, "spec.training.job: ", id="a job that is no reference"
        ),
        pytest.param({"training": TRAINING | {"global_batch_size": 8}}, "exactly one of", id="two batch sizes"),
        pytest.param({"training": TRAINING | {"learning_rate": "nan"}}, "learning_rate", id="a rate that is no number"),
        pytest.param(
            {"env": {"TF_CONFIG": "{}"}}, "env: TF_CONFIG: set by Lockstep", id="an environment of Lockstep's"
        ),
    ],
)
def test_bad_input_is_refused(given: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidSpec) as refused:
        spec(**given)
    assert told in str(refused.value)


def test_all_faults_are_told_at_once() -> None:
    with pytest.raises(InvalidSpec, match=r"image.*workers"):
        spec(workers=0, image="")


def test_numbers_may_arrive_as_strings() -> None:
    """Jinja renders every template to a string."""
    assert spec(workers="3").workers == 3


def test_a_spec_reads_back_equal() -> None:
    given = spec(resources={"cpu": "1", "memory": "2Gi", "gpu": 1})
    assert parse(TrainingSpec, to_json(given), what="spec") == given


def test_no_value_of_the_environment_is_told() -> None:
    with pytest.raises(InvalidSpec) as refused:
        spec(env={"TOKEN": {"hidden": "s3cret"}})
    assert "s3cret" not in str(refused.value)
