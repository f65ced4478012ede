"""Batch, learning rate and steps scale together, and nothing is left to be guessed."""

from __future__ import annotations

import pytest

from tests.trainer.requests import training
from trainer.errors import InvalidRequest
from trainer.scaling import plan_scaling


@pytest.mark.parametrize(
    ("asked", "replicas", "batch", "rate"),
    [
        pytest.param({"per_replica_batch_size": 32}, 1, 32, 0.1, id="one replica: as asked"),
        pytest.param({"per_replica_batch_size": 32}, 4, 128, 0.4, id="batch per replica: the rate grows with replicas"),
        pytest.param({"global_batch_size": 64}, 4, 64, 0.1, id="global batch: neither changes with replicas"),
        pytest.param(
            {"per_replica_batch_size": 32, "learning_rate_batch_size": 256},
            4,
            128,
            0.05,
            id="a rate known at batch 256 is halved at 128",
        ),
    ],
)
def test_learning_rate_follows_the_batch(asked: dict[str, int], replicas: int, batch: int, rate: float) -> None:
    plan = plan_scaling(training(**asked), replicas, train_samples=1000)
    assert plan.global_batch_size == batch
    assert plan.per_replica_batch_size * replicas == batch
    assert plan.learning_rate == pytest.approx(rate)


def test_more_replicas_mean_fewer_steps() -> None:
    """tensorflow#42888: the batch was scaled, the steps were not."""
    one, four = (plan_scaling(training(per_replica_batch_size=32), replicas, 1024) for replicas in (1, 4))
    assert (one.steps_per_epoch, four.steps_per_epoch) == (32, 8)
    assert one.steps == 4 * four.steps


def test_the_plan_says_what_it_leaves_out() -> None:
    plan = plan_scaling(training(per_replica_batch_size=32, warmup_epochs=0.5), 2, train_samples=1437)
    assert (plan.steps_per_epoch, plan.left_over_samples, plan.warmup_steps) == (22, 29, 11)
    assert "batch 64 = 2 replicas × 32" in plan.describe()
    assert "29 left over, too few for another step" in plan.describe()


@pytest.mark.parametrize(
    ("asked", "complaint"),
    [
        pytest.param({"global_batch_size": 64}, "cannot be split evenly over 3", id="a batch that does not divide"),
        pytest.param({"per_replica_batch_size": 500}, "more than all 1000", id="a batch greater than the data"),
    ],
)
def test_an_impossible_batch_is_refused(asked: dict[str, int], complaint: str) -> None:
    with pytest.raises(InvalidRequest, match=complaint):
        plan_scaling(training(**asked), 3, train_samples=1000)
