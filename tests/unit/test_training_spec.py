"""Bad input gets a clear error: what was wrong, where, and what to do."""

from __future__ import annotations

from typing import Any

import pytest

from lockstep.errors import InvalidSpec
from lockstep.parsing import parse, to_json
from lockstep.training_spec import TrainingSpec
from tests.unit.builders import spec

DATA = {"job": "my.job:Job", "train_data": "gs://bucket/d/*"}
TRAINING = DATA | {"per_replica_batch_size": 8}
SHARED_BATCH = DATA | {"global_batch_size": 64}


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
            {"workers": 3, "training": SHARED_BATCH}, "64 cannot be split evenly over 3 replicas", id="an uneven batch"
        ),
        pytest.param(
            {"workers": 2, "resources": {"gpu": 3}, "training": SHARED_BATCH},
            "64 cannot be split evenly over 6 replicas; ask for a multiple of 6",
            id="a batch uneven among GPUs",
        ),
        pytest.param(
            {"workers": 2, "training": TRAINING | {"train_samples": 15}},
            "a global batch of 16 is more than all train_samples, 15",
            id="a batch of more than all samples",
        ),
        pytest.param({"training": TRAINING | {"seed": 2**32 - 1}}, "training.seed", id="a seed NumPy does not take"),
        pytest.param(
            {"env": {"TF_CONFIG": "{}"}}, "env: TF_CONFIG: set by Lockstep", id="an environment of Lockstep's"
        ),
    ],
)
def test_bad_input_is_refused(given: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidSpec) as refused:
        spec(**given)
    assert told in str(refused.value)


def test_how_a_program_of_ones_own_splits_the_batch_is_its_own_business() -> None:
    assert spec(workers=3, training=SHARED_BATCH, command=["python", "own.py"]).workers == 3


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


OWN = {"command": ["python", "own.py"]}


@pytest.mark.parametrize(
    ("given", "told"),
    [
        pytest.param(
            {"roles": {"chief": {}, "wroker": {}}},
            "spec.roles: unknown parameter 'wroker' (did you mean 'worker'?); valid ones: chief, evaluator, ps, worker",
            id="a role that TensorFlow does not know",
        ),
        pytest.param(
            {"roles": {"worker": {"replica": 2}}},
            "spec.roles.worker: unknown parameter 'replica' (did you mean 'replicas'?)",
            id="a typo inside a role",
        ),
        pytest.param(
            {"roles": {"worker": {"resources": {"cpus": "1"}}}},
            "spec.roles.worker.resources: unknown parameter 'cpus' (did you mean 'cpu'?)",
            id="a typo inside a role's resources",
        ),
        pytest.param({"roles": {"chief": {"replicas": 2}}}, "TensorFlow knows one chief at most", id="two chiefs"),
        pytest.param(
            {"roles": {"worker": {"replicas": 2}, "evaluator": OWN | {"replicas": 2}}},
            "TensorFlow knows one evaluator at most",
            id="two evaluators",
        ),
        pytest.param({"roles": {"evaluator": OWN}}, "roles: nobody trains", id="nobody who trains"),
        pytest.param({"roles": {}}, "roles: nobody trains", id="no role at all"),
        pytest.param({"roles": {"chief": OWN, "ps": OWN}}, "give workers too", id="servers without workers"),
        pytest.param({"workers": 3, "roles": {"chief": {}, "worker": {}}}, "roles have 2", id="another number of them"),
        pytest.param(
            {"roles": {"chief": {}, "worker": {}, "evaluator": {}}},
            "roles.evaluator: `python -m trainer` trains as chief and as worker only; give a program of your own",
            id="an evaluator that our trainer would have to be",
        ),
        pytest.param(
            {"roles": {"worker": {"replicas": 2}, "ps": OWN}},
            "roles.worker: `python -m trainer` trains as chief and as worker only, and not with parameter servers",
            id="our trainer with parameter servers",
        ),
        pytest.param(
            {"roles": {"chief": {}, "worker": {"resources": {"gpu": 1}}}},
            "roles: MultiWorkerMirroredStrategy needs as many GPUs in every pod, got chief 0, worker 1",
            id="pods of our trainer that have not the same",
        ),
    ],
)
def test_roles_that_cannot_train_together_are_refused(given: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidSpec) as refused:
        spec(**given)
    assert told in str(refused.value)


def test_a_role_has_what_it_is_given_and_else_what_all_have() -> None:
    asked = spec(
        workers=1,
        resources={"cpu": "1"},
        pod_options={"labels": {"team": "a"}, "priority_class_name": "low"},
        roles={
            "worker": {"resources": {"gpu": 1}},
            "evaluator": OWN | {"pod_options": {"priority_class_name": "high"}},
        },
    )
    worker, evaluator = asked.shape("worker"), asked.shape("evaluator")
    assert (worker.command, worker.resources.gpu, worker.resources.cpu) == (asked.command, 1, None)
    assert (evaluator.command, evaluator.resources.cpu) == (("python", "own.py"), "1")
    assert evaluator.pod_options == {"labels": {"team": "a"}, "priority_class_name": "high"}
