"""How the training files are divided among the workers, decided before a pod exists.

FILE gives every worker files of its own; DATA lets every worker read all files and keep each n-th sample. The trainer
applies the same rule to the same files. Listing them is left to cloud_storage.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from lockstep.errors import InvalidSpec
from lockstep.stored_object import StoredObject

Policy = Literal["FILE", "DATA"]

EVEN_WITHIN = 1.05
"""How many times the smallest share the largest may be for `auto` to choose FILE. Every worker draws the same number of
samples in an epoch, so what one share has more is left out, and from files larger than a shuffle buffer it is always
the same."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ShardingReport:
    """The policy in force and why; `remainder` counts the files that some workers have more than others under FILE.

    `files_per_worker` and `bytes_per_worker` are (fewest, most) over the workers, of what a worker reads in one epoch.
    """

    policy: Policy
    files: int
    size_bytes: int
    workers: int
    remainder: int
    files_per_worker: tuple[int, int]
    bytes_per_worker: tuple[int, int]
    reason: str

    def to_xcom(self) -> dict[str, Any]:
        """The report as plain JSON."""
        return asdict(self) | {
            "files_per_worker": list(self.files_per_worker),
            "bytes_per_worker": list(self.bytes_per_worker),
        }


def plan_sharding(files: Sequence[StoredObject], *, workers: int, policy: str, source: str) -> ShardingReport:
    """Divide `files` (what the glob `source` found) among `workers`; `policy` is "auto", "file" or "data".

    Raises:
        InvalidSpec: the policy is unknown, there is no file, a file is empty, or FILE has fewer files than workers.
    """
    if workers < 1:
        raise InvalidSpec(f"workers must be at least 1, got {workers}")
    if policy not in _PLANS:
        raise InvalidSpec(f"sharding {policy!r} is unknown; valid: {', '.join(_PLANS)}")
    _refuse_unusable(files, source)
    return _PLANS[policy](sorted(files), workers, source)


def _refuse_unusable(files: Sequence[StoredObject], source: str) -> None:
    if not files:
        raise InvalidSpec(f"no file matches {source}: check the address, or write the data set first")
    if empty := sorted(file.path for file in files if file.size_bytes == 0):
        shown = ", ".join(empty[:3]) + (f" and {len(empty) - 3} more" if len(empty) > 3 else "")
        raise InvalidSpec(f"{len(empty)} of {len(files)} files of {source} have 0 bytes ({shown}): write them again")


def _plan_auto(files: list[StoredObject], workers: int, source: str) -> ShardingReport:
    count = len(files)
    if count < workers:
        return _by_data(files, workers, f"DATA, because {count} files cannot give each of {workers} workers one")
    if count % workers:
        return _by_data(files, workers, f"DATA, because {count} files are no multiple of {workers} workers")
    by_file = _by_file(files, workers, source)
    if not _even(by_file.bytes_per_worker):
        return _by_data(files, workers, f"DATA, because the workers' files would be {_told(by_file.bytes_per_worker)}")
    return by_file


def _plan_data(files: list[StoredObject], workers: int, source: str) -> ShardingReport:
    del source
    return _by_data(files, workers, "DATA, as asked")


def _by_file(files: list[StoredObject], workers: int, source: str) -> ShardingReport:
    if len(files) < workers:
        raise InvalidSpec(
            f"sharding 'file' needs a file for each of {workers} workers, but {source} matches {len(files)}: "
            f"write at least {workers} files, use at most {len(files)} workers, or choose sharding 'data'"
        )
    shares = [files[rank::workers] for rank in range(workers)]
    counts = [len(share) for share in shares]
    sizes = [sum(file.size_bytes for file in share) for share in shares]
    fewest_and_most_bytes = (min(sizes), max(sizes))
    return ShardingReport(
        policy="FILE",
        files=len(files),
        size_bytes=sum(sizes),
        workers=workers,
        remainder=len(files) % workers,
        files_per_worker=(min(counts), max(counts)),
        bytes_per_worker=fewest_and_most_bytes,
        reason=_file_reason(counts, fewest_and_most_bytes),
    )


def _file_reason(counts: list[int], size_bytes: tuple[int, int]) -> str:
    each = f"give each of {len(counts)} workers {counts[0]}"
    if min(counts) < max(counts):
        each = (
            f"{counts.count(max(counts))} of {len(counts)} workers read {max(counts)} files, the others {min(counts)}"
        )
    elif _even(size_bytes):
        return f"FILE, because {sum(counts)} files {each}"
    told = f"{each} ({_told(size_bytes)})"
    return f"FILE, as asked, unevenly: {told}, so the samples of the smaller share come up more often"


def _even(size_bytes: tuple[int, int]) -> bool:
    smallest, largest = size_bytes
    return largest <= EVEN_WITHIN * smallest


def _told(size_bytes: tuple[int, int]) -> str:
    return f"{size_bytes[0]} to {size_bytes[1]} bytes a worker"


def _by_data(files: list[StoredObject], workers: int, reason: str) -> ShardingReport:
    size_bytes = sum(file.size_bytes for file in files)
    return ShardingReport(
        policy="DATA",
        files=len(files),
        size_bytes=size_bytes,
        workers=workers,
        remainder=0,
        files_per_worker=(len(files), len(files)),
        bytes_per_worker=(size_bytes, size_bytes),
        reason=reason,
    )


_PLANS: dict[str, Callable[[list[StoredObject], int, str], ShardingReport]] = {
    "auto": _plan_auto,
    "file": _by_file,
    "data": _plan_data,
}
