"""What was asked is checked at the door, and refused with a reason."""

from __future__ import annotations

import json

import pytest

from tests.trainer.requests import VALID, training
from trainer.errors import InvalidRequest
from trainer.training_request import parse_training_request


@pytest.mark.parametrize(
    ("asked", "complaint"),
    [
        pytest.param({"epoch": 3}, r"unknown keys \['epoch'\]; valid keys are .*'epochs'", id="a misspelt key"),
        pytest.param({"epochs": 0}, "epochs must be greater than 0", id="no epochs"),
        pytest.param({"epochs": 2.5}, "epochs must be int, got 2.5", id="half an epoch"),
        pytest.param({"epochs": True}, "epochs must be int, got True", id="a yes for a number"),
        pytest.param({"learning_rate": "fast"}, "learning_rate must be int or float", id="words for a number"),
        pytest.param({"learning_rate": -1}, "learning_rate must be greater than 0", id="unlearning"),
        pytest.param({"global_batch_size": 64}, "exactly one of", id="two batch sizes"),
        pytest.param({"per_replica_batch_size": None}, "exactly one of", id="no batch size"),
        pytest.param({"sharding": "rows"}, "sharding must be one of .*'auto', 'file', 'data'", id="an unknown policy"),
        pytest.param({"warmup_epochs": -1}, "warmup_epochs must be 0 or more", id="warm-up before the start"),
        pytest.param({"job": "trainer.examples.digits"}, "job must be 'module:attribute'", id="a module for a job"),
        pytest.param({"job_params": [1]}, "job_params must be dict", id="a list of parameters"),
    ],
)
def test_an_impossible_request_is_refused_with_the_reason(asked: dict[str, object], complaint: str) -> None:
    with pytest.raises(InvalidRequest, match=complaint):
        parse_training_request(json.dumps({**VALID, "per_replica_batch_size": 32, **asked}))


@pytest.mark.parametrize("text", ["", "[]", "{", "null"])
def test_what_is_not_a_json_object_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest, match="LOCKSTEP_TRAINING"):
        parse_training_request(text)


def test_missing_keys_are_named() -> None:
    with pytest.raises(InvalidRequest, match=r"lacks \['job', 'train_data'\]"):
        parse_training_request("{}")


def test_another_request_has_another_digest() -> None:
    assert training().digest == training().digest
    assert training().digest != training(seed=1).digest
