"""Whether what a gang left behind may be called a model: manifests and listings against claims and wishes.

Pure: every check looks at values and returns the problems it sees; `judge` collects them all before it refuses.
Fetching is run_directory.py's, loading the model is a pod's.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, TypeGuard

from pydantic import Field

from lockstep.errors import CheckpointRejected
from lockstep.manifest import FILE_NAME, ListedFile, MalformedManifest, Manifest
from lockstep.stored_object import StoredObject
from lockstep.training_result import TrainingResult

Bound = Annotated[float, Field(allow_inf_nan=False)]


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredDirectory:
    """A directory as storage holds it: its manifest's bytes (None: there is none), and every other object in it."""

    path: str
    manifest: bytes | None
    objects: tuple[StoredObject, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Wishes:
    """What the DAG's author asks of a model; None and {} ask nothing.

    `min_metrics` and `max_metrics` bound a metric; `max_drop` and `max_rise` say how far it may fall below, or rise
    above, the champion's.
    """

    workers: int | None = None
    epochs: int | None = None
    min_metrics: dict[str, Bound] = field(default_factory=dict)
    max_metrics: dict[str, Bound] = field(default_factory=dict)
    max_drop: dict[str, Bound] = field(default_factory=dict)
    max_rise: dict[str, Bound] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class VerifiedDirectory:
    """A directory whose every listed file is there, with the size and checksum that its manifest names."""

    path: str
    digest: str
    files: int
    size_bytes: int
    unlisted: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckpointReport:
    """A training result that passed every check; `metrics` are finite numbers."""

    step: int
    workers: int
    metrics: Mapping[str, float]
    checkpoint: VerifiedDirectory
    model: VerifiedDirectory

    @property
    def digest(self) -> str:
        """The digest of the exported model: what the registry knows it by."""
        return self.model.digest

    @property
    def files(self) -> int:
        """Files verified, checkpoint and model together, manifests included."""
        return self.checkpoint.files + self.model.files

    @property
    def size_bytes(self) -> int:
        """Bytes verified by checksum, checkpoint and model together."""
        return self.checkpoint.size_bytes + self.model.size_bytes


def judge(
    result: TrainingResult,
    *,
    checkpoint: StoredDirectory,
    model: StoredDirectory,
    wishes: Wishes,
    champion: Mapping[str, float] | None,
    source: str,
) -> CheckpointReport:
    """Accept a training result; `champion` holds the metrics of the model in use (None: there is none).

    Raises:
        CheckpointRejected: naming every failed check, not only the first.
    """
    damage = [
        *_directory_problems(checkpoint, kind="checkpoint", result=result),
        *_directory_problems(model, kind="model", result=result),
    ]
    shortfalls = [
        *_extent_problems(result, wishes),
        *_metric_problems(result.metrics, wishes),
        *_champion_problems(result.metrics, wishes, champion),
    ]
    if damage or shortfalls:
        raise CheckpointRejected(_refusal(source, damage, shortfalls))
    return CheckpointReport(
        step=result.step,
        workers=result.workers,
        metrics={name: float(value) for name, value in result.metrics.items()},
        checkpoint=_verified(checkpoint),
        model=_verified(model),
    )


def _refusal(source: str, damage: list[str], shortfalls: list[str]) -> str:
    problems = damage + shortfalls
    count = "1 check" if len(problems) == 1 else f"{len(problems)} checks"
    hint = "start another run with other parameters" if shortfalls else "clear the training task: it writes it again"
    return f"the result in {source} failed {count}: {'; '.join(problems)}. Next: {hint}"


def _verified(directory: StoredDirectory) -> VerifiedDirectory:
    assert directory.manifest is not None  # a missing manifest is a problem that judge has seen
    manifest = Manifest.parse(directory.manifest)
    return VerifiedDirectory(
        path=directory.path,
        digest=manifest.digest,
        files=len(manifest.files) + 1,
        size_bytes=manifest.size_bytes + len(directory.manifest),
        unlisted=tuple(sorted(_unlisted(manifest, directory))),
    )


def _unlisted(manifest: Manifest, directory: StoredDirectory) -> set[str]:
    return {stored.path for stored in directory.objects} - {file.path for file in manifest.files} - {FILE_NAME}


def _directory_problems(directory: StoredDirectory, *, kind: str, result: TrainingResult) -> Iterator[str]:
    if directory.manifest is None:
        yield f"{directory.path}/{FILE_NAME} is missing, so its writing was never finished"
        return
    try:
        manifest = Manifest.parse(directory.manifest)
    except MalformedManifest as error:
        yield f"{directory.path}/{FILE_NAME} cannot be read ({error})"
        return
    yield from _claim_problems(directory.path, manifest, kind, result)
    yield from _file_problems(directory, manifest)


def _claim_problems(path: str, manifest: Manifest, kind: str, result: TrainingResult) -> Iterator[str]:
    claims = [
        ("kind", manifest.kind, kind),
        ("step", manifest.step, result.step),
        ("workers", manifest.workers, result.workers),
    ]
    for what, found, wanted in claims:
        if found != wanted:
            yield f"{path}/{FILE_NAME} says {what} {found!r}, the result says {wanted!r}"
    if not manifest.files:
        yield f"{path}/{FILE_NAME} lists no file"


def _file_problems(directory: StoredDirectory, manifest: Manifest) -> Iterator[str]:
    stored = {item.path: item for item in directory.objects}
    for file in manifest.files:
        if problem := _file_problem(file, stored.get(file.path)):
            yield f"{directory.path}/{file.path} {problem}"


def _file_problem(listed: ListedFile, stored: StoredObject | None) -> str | None:
    if stored is None:
        return "is in the manifest, but not in storage"
    if stored.size_bytes != listed.size_bytes:
        return f"has {stored.size_bytes} bytes, the manifest says {listed.size_bytes}"
    if stored.crc32c != listed.crc32c:
        return f"has crc32c {stored.crc32c}, the manifest says {listed.crc32c}"
    return None


def _extent_problems(result: TrainingResult, wishes: Wishes) -> Iterator[str]:
    if wishes.workers is not None and result.workers != wishes.workers:
        yield f"{result.workers} workers trained it, {wishes.workers} were asked for"
    if wishes.epochs is not None and result.epochs != wishes.epochs:
        yield f"it was trained for {result.epochs} epochs, {wishes.epochs} were asked for"
    if result.steps_per_epoch is not None and result.step != result.epochs * result.steps_per_epoch:
        planned = f"{result.epochs} epochs of {result.steps_per_epoch} steps"
        yield f"it ends at step {result.step}, but {planned} were planned"


def _metric_problems(metrics: Mapping[str, object], wishes: Wishes) -> Iterator[str]:
    if not metrics:
        yield "it reports no metric at all"
    yield from (
        f"{name} is {value!r}, not a finite number" for name, value in sorted(metrics.items()) if not _finite(value)
    )
    yield from _bound_problems(metrics, wishes.min_metrics, at_least=True)
    yield from _bound_problems(metrics, wishes.max_metrics, at_least=False)


def _bound_problems(metrics: Mapping[str, object], bounds: Mapping[str, float], *, at_least: bool) -> Iterator[str]:
    for name, bound in sorted(bounds.items()):
        wanted = f"must be at {'least' if at_least else 'most'} {bound:g}"
        value = metrics.get(name)
        if name not in metrics:
            yield f"{name} {wanted}, but was not measured ({_measured(metrics)})"
        elif _finite(value) and (value < bound if at_least else value > bound):
            yield f"{name} is {value:.6g}, but {wanted}"


def _champion_problems(
    metrics: Mapping[str, object], wishes: Wishes, champion: Mapping[str, float] | None
) -> Iterator[str]:
    if champion is None:
        return
    yield from _comparison_problems(metrics, champion, wishes.max_drop, sign=-1)
    yield from _comparison_problems(metrics, champion, wishes.max_rise, sign=1)


def _comparison_problems(
    metrics: Mapping[str, object], champion: Mapping[str, float], allowed: Mapping[str, float], *, sign: int
) -> Iterator[str]:
    for name, tolerance in sorted(allowed.items()):
        value = metrics.get(name)
        if name not in metrics:
            yield f"{name} must be compared with the champion's, but was not measured ({_measured(metrics)})"
        elif name in champion and _finite(value) and sign * (value - champion[name]) > tolerance:
            limit = f"{'rise' if sign > 0 else 'drop'} by {tolerance:g} at most"
            yield f"{name} is {value:.6g}, the champion has {champion[name]:.6g}, and it may {limit}"


def _measured(metrics: Mapping[str, object]) -> str:
    return f"measured: {', '.join(sorted(metrics)) or 'nothing'}"


def _finite(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
