"""Only a result whose every claim holds may be called a model."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from lockstep.checkpoint import CheckpointReport, StoredDirectory, Wishes, judge
from lockstep.errors import CheckpointRejected
from lockstep.stored_object import StoredObject
from lockstep.training_result import TrainingResult


def result(**changes: Any) -> dict[str, Any]:
    return {
        "schema": 1,
        "step": 420,
        "epochs": 5,
        "workers": 2,
        "scaling": {"steps_per_epoch": 84},
        "metrics": {"loss": 0.1, "eval_loss": 0.2, "eval_accuracy": 0.97},
        "checkpoint": "checkpoints/step-00000420",
        "model": "model",
    } | changes


def directory(path: str, kind: str, **changes: Any) -> StoredDirectory:
    objects = (
        StoredObject(path="a", size_bytes=3, crc32c="AAAAAA=="),
        StoredObject(path="v/b", size_bytes=5, crc32c="BBBBBB=="),
    )
    listed = [{"path": item.path, "size_bytes": item.size_bytes, "crc32c": item.crc32c} for item in objects]
    document = {"schema": 1, "kind": kind, "step": 420, "workers": 2, "attempt": 1, "files": listed} | changes
    return StoredDirectory(path=path, manifest=json.dumps(document).encode(), objects=objects)


@dataclass(frozen=True, kw_only=True)
class Case:
    """A good result; a test changes what it is about."""

    document: dict[str, Any] = field(default_factory=result)
    checkpoint: StoredDirectory = field(default_factory=lambda: directory("checkpoints/step-00000420", "checkpoint"))
    model: StoredDirectory = field(default_factory=lambda: directory("model", "model"))
    wishes: Wishes = field(default_factory=Wishes)
    champion: dict[str, float] | None = None

    def judge(self) -> CheckpointReport:
        claims = TrainingResult.parse(self.document, source="gs://b-1/r/result.json")
        return judge(
            claims,
            checkpoint=self.checkpoint,
            model=self.model,
            wishes=self.wishes,
            champion=self.champion,
            source="gs://b-1/r",
        )


def with_objects(case: Case, change: Callable[[tuple[StoredObject, ...]], tuple[StoredObject, ...]]) -> Case:
    return replace(case, model=replace(case.model, objects=change(case.model.objects)))


GOOD = Case()


def test_a_complete_result_is_accepted() -> None:
    """The report counts what was verified, and names the model by its manifest's digest."""
    report = GOOD.judge()
    assert (report.step, report.workers, report.metrics["eval_accuracy"]) == (420, 2, 0.97)
    assert report.files == 6
    assert report.digest.startswith("sha256:")
    assert report.digest == report.model.digest != report.checkpoint.digest


def test_a_file_that_no_manifest_lists_is_reported_not_refused() -> None:
    """A leftover harms nobody who reads by the manifest, but somebody may want to know."""
    extra = StoredObject(path="left.tmp", size_bytes=1, crc32c="")
    assert with_objects(GOOD, lambda objects: (*objects, extra)).judge().model.unlisted == ("left.tmp",)


@pytest.mark.parametrize(
    ("case", "complaint"),
    [
        pytest.param(
            replace(GOOD, model=replace(GOOD.model, manifest=None)), "model/manifest.json is missing", id="no manifest"
        ),
        pytest.param(replace(GOOD, model=replace(GOOD.model, manifest=b"{")), "cannot be read", id="a torn manifest"),
        pytest.param(replace(GOOD, model=directory("model", "model", schema=2)), "schema 2", id="an unknown schema"),
        pytest.param(
            replace(GOOD, model=directory("model", "model", files=[])), "lists no file", id="an empty manifest"
        ),
        pytest.param(
            replace(GOOD, model=directory("model", "backup")), "kind 'backup'", id="another kind of directory"
        ),
        pytest.param(
            replace(GOOD, model=directory("model", "model", step=84)), "step 84", id="an export of another step"
        ),
        pytest.param(
            replace(GOOD, model=directory("model", "model", workers=3)), "workers 3", id="an export of another gang"
        ),
        pytest.param(
            with_objects(GOOD, lambda o: o[1:]), "model/a is in the manifest, but not in storage", id="a file is gone"
        ),
        pytest.param(
            with_objects(GOOD, lambda o: (replace(o[0], size_bytes=2), o[1])),
            "has 2 bytes, the manifest says 3",
            id="truncated",
        ),
        pytest.param(
            with_objects(GOOD, lambda o: (o[0], replace(o[1], crc32c="CCCCCC=="))),
            "model/v/b has crc32c",
            id="other bytes",
        ),
        pytest.param(
            replace(GOOD, wishes=Wishes(workers=4)), "2 workers trained it, 4 were asked for", id="other world size"
        ),
        pytest.param(replace(GOOD, wishes=Wishes(epochs=6)), "5 epochs, 6 were asked for", id="too few epochs"),
        pytest.param(
            Case(document=result(scaling={"steps_per_epoch": 100})),
            "ends at step 420, but 5 epochs of 100",
            id="stopped early",
        ),
        pytest.param(Case(document=result(metrics={})), "no metric at all", id="nothing measured"),
        pytest.param(Case(document=result(metrics={"loss": math.nan})), "loss is nan", id="a loss of NaN"),
        pytest.param(Case(document=result(metrics={"loss": math.inf})), "loss is inf", id="an infinite loss"),
        pytest.param(Case(document=result(metrics={"loss": "low"})), "loss is 'low'", id="a loss that is no number"),
        pytest.param(
            replace(GOOD, wishes=Wishes(min_metrics={"eval_accuracy": 0.98})),
            "eval_accuracy is 0.97, but must be at least 0.98",
            id="below the bound",
        ),
        pytest.param(
            replace(GOOD, wishes=Wishes(max_metrics={"eval_loss": 0.1})), "must be at most 0.1", id="above the bound"
        ),
        pytest.param(
            replace(GOOD, wishes=Wishes(min_metrics={"f1": 0.9})),
            "not measured (measured: eval_accuracy",
            id="not measured",
        ),
        pytest.param(
            replace(GOOD, wishes=Wishes(max_drop={"eval_accuracy": 0.01}), champion={"eval_accuracy": 0.99}),
            "the champion has 0.99, and it may drop by 0.01",
            id="worse than the champion",
        ),
        pytest.param(
            replace(GOOD, wishes=Wishes(max_rise={"eval_loss": 0.05}), champion={"eval_loss": 0.1}),
            "may rise by 0.05",
            id="a higher loss than the champion's",
        ),
    ],
)
def test_one_false_claim_is_enough_to_refuse(case: Case, complaint: str) -> None:
    """The error names the place, the evidence, and what to do next."""
    with pytest.raises(CheckpointRejected) as refused:
        case.judge()
    assert complaint in str(refused.value)
    assert "failed 1 check:" in str(refused.value)
    assert "Next: " in str(refused.value)


def test_all_failed_checks_are_named_at_once() -> None:
    """Who mends one thing should not meet the next one a run later."""
    broken = replace(
        GOOD,
        checkpoint=replace(GOOD.checkpoint, objects=()),
        wishes=Wishes(workers=3, min_metrics={"eval_accuracy": 1}),
    )
    with pytest.raises(CheckpointRejected, match="failed 4 checks"):
        broken.judge()


@pytest.mark.parametrize(
    "champion",
    [
        pytest.param(None, id="there is no champion yet"),
        pytest.param({"eval_accuracy": 0.975}, id="within the tolerance"),
        pytest.param({"other": 1.0}, id="the champion was never measured so"),
    ],
)
def test_the_champion_is_only_compared_where_it_can_be(champion: dict[str, float] | None) -> None:
    """The first model has nothing to beat."""
    replace(GOOD, wishes=Wishes(max_drop={"eval_accuracy": 0.01}), champion=champion).judge()


def test_an_absent_measurement_is_not_a_bad_one() -> None:
    """Without evaluation data the trainer writes null."""
    assert "eval_loss" not in Case(document=result(metrics={"loss": 1.0, "eval_loss": None})).judge().metrics


@pytest.mark.parametrize(
    ("document", "complaint"),
    [
        pytest.param(result(schema=9), "schema 9", id="another schema"),
        pytest.param({"schema": 1, "step": 1}, "not complete", id="claims are missing"),
        pytest.param(result(model="../other/model"), "no path inside", id="a model outside the run directory"),
        pytest.param(result(metrics=[1]), "not complete", id="metrics that are no mapping"),
    ],
)
def test_a_result_that_cannot_be_read_is_refused(document: dict[str, Any], complaint: str) -> None:
    """A foreign trainer's mistake is its author's to see, not a stack trace."""
    with pytest.raises(CheckpointRejected, match=complaint):
        Case(document=document).judge()
