"""Gangs of workers for tests, as real processes on this machine."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.trainer.ports import free_addresses
from tests.trainer.worker_process import run_worker_process

PATIENCE_S = 300.0
_LOOK_EVERY_S = 0.02


class Gang:
    """The workers of one attempt."""

    def __init__(self, directory: Path, environments: list[dict[str, str]]) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["tests.trainer.worker_process"])
        self._directory = directory
        self._processes = [
            context.Process(target=run_worker_process, args=(environ, str(self._log(rank))), daemon=True)
            for rank, environ in enumerate(environments)
        ]
        for process in self._processes:
            process.start()

    def send(self, rank: int, number: signal.Signals) -> None:
        pid = self._processes[rank].pid
        assert pid is not None
        os.kill(pid, number)

    def outcome(self) -> list[int | None]:
        """Wait until all have ended; their exit statuses, in order of rank (a negative one is a signal's number)."""
        deadline_s = time.monotonic() + PATIENCE_S
        for process in self._processes:
            process.join(max(deadline_s - time.monotonic(), 0))
        return [process.exitcode for process in self._processes]

    def until(self, condition: Callable[[], bool]) -> None:
        """Wait for something that the gang brings about. Fails when the gang ends before."""
        while not condition():
            assert all(process.exitcode is None for process in self._processes), self.logs()
            time.sleep(_LOOK_EVERY_S)

    def message(self, rank: int) -> dict[str, Any]:
        """What the worker left as its termination message."""
        return dict(json.loads(self._termination_log(rank).read_bytes()))

    def log(self, rank: int) -> str:
        return self._log(rank).read_text()

    def logs(self) -> str:
        return "\n".join(f"--- worker {rank}\n{self.log(rank)[-3000:]}" for rank in range(len(self._processes)))

    def end(self) -> None:
        for process in self._processes:
            process.kill()
            process.join()

    def _log(self, rank: int) -> Path:
        return self._directory / f"log-{rank}"

    def _termination_log(self, rank: int) -> Path:
        return termination_log(self._directory, rank)


class Gangs:
    """Starts gangs, and ends what is left of them."""

    def __init__(self, directories: pytest.TempPathFactory, digits: Path) -> None:
        self._directories = directories
        self._digits = digits
        self._started: list[Gang] = []

    def __enter__(self) -> Gangs:
        return self

    def __exit__(self, *_: object) -> None:
        for gang in self._started:
            gang.end()

    def run_directory(self) -> Path:
        return self._directories.mktemp("run")

    def start(
        self,
        run: Path | str,
        workers: int = 2,
        *,
        attempt: int = 1,
        chief: bool = False,
        env: dict[str, str] | None = None,
        **asked: Any,
    ) -> Gang:
        """Start a gang that trains on the digits in `run`. `asked` goes into the training request, `env` beside it.

        With `chief`, the first has a role of its own; otherwise all are workers.
        """
        directory, addresses = self._directories.mktemp("gang"), free_addresses(workers)
        training = {**self.training(), **asked}
        environments = [
            environment(str(run), addresses, rank, attempt, training, directory)
            | (chief_among(addresses, rank) if chief else {})
            | (env or {})
            for rank in range(workers)
        ]
        gang = Gang(directory, environments)
        self._started.append(gang)
        return gang

    def training(self) -> dict[str, Any]:
        return {
            "job": "tests.trainer.jobs:TinyJob",
            "train_data": f"{self._digits}/train-*.tfrecord",
            "eval_data": f"{self._digits}/eval-*.tfrecord",
            "train_samples": 1437,
            "epochs": 2,
            "global_batch_size": 64,
            "learning_rate": 0.005,
            "backup_every_steps": 10,
        }


def environment(
    run: str, addresses: list[str], rank: int, attempt: int, training: dict[str, Any], directory: Path
) -> dict[str, str]:
    """The contract's variables for one worker, with what a process needs besides."""
    task = {"type": "worker", "index": rank}
    cluster = {"TF_CONFIG": json.dumps({"cluster": {"worker": addresses}, "task": task})} if len(addresses) > 1 else {}
    return {
        "PATH": os.environ["PATH"],
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "LOCKSTEP_CONTRACT": "1",
        "LOCKSTEP_RUN_DIRECTORY": run,
        "LOCKSTEP_ATTEMPT": str(attempt),
        "LOCKSTEP_RANK": str(rank),
        "LOCKSTEP_WORKERS": str(len(addresses)),
        "LOCKSTEP_RENDEZVOUS_TIMEOUT_S": "60",
        "LOCKSTEP_STALL_TIMEOUT_S": "120",
        "LOCKSTEP_TRAINING": json.dumps(training),
        "LOCKSTEP_TERMINATION_LOG": str(termination_log(directory, rank)),
        **cluster,
    }


def chief_among(addresses: list[str], rank: int) -> dict[str, str]:
    """TF_CONFIG of a cluster in which the first address is the chief's."""
    task = {"type": "worker", "index": rank - 1} if rank else {"type": "chief", "index": 0}
    return {"TF_CONFIG": json.dumps({"cluster": {"chief": addresses[:1], "worker": addresses[1:]}, "task": task})}


def termination_log(directory: Path, rank: int) -> Path:
    return directory / f"termination-{rank}"


def backups(run: Path) -> list[str]:
    """Names of the complete generations, oldest first."""
    return sorted(path.parent.name for path in run.glob("backup/*/manifest.json"))


def digest_of_state(run: Path) -> str:
    """MD5 over every variable of the newest backup: weights, optimizer, seeds, moving averages."""
    reader = tf.train.load_checkpoint(str(run / "backup" / backups(run)[-1] / "variables"))
    digest = hashlib.md5(usedforsecurity=False)
    for name in sorted(reader.get_variable_to_shape_map()):
        if name.endswith("VARIABLE_VALUE"):
            digest.update(name.encode() + np.ascontiguousarray(reader.get_tensor(name)).tobytes())
    return digest.hexdigest()


def read_json(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_bytes()))


def files_below(directory: Path) -> dict[str, bytes]:
    """Every file's content, by path."""
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}
