"""Who this worker is, where it writes and what it trains: the only reader of the environment in the pod.

It trusts nothing and imports no TensorFlow, so that a wrong environment is refused within milliseconds.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from trainer.errors import InvalidRequest
from trainer.training_request import TrainingRequest, parse_training_request

CONTRACT: Final = "1"
DEFAULT_TERMINATION_LOG: Final = "/dev/termination-log"


@dataclass(frozen=True, kw_only=True, slots=True)
class RunContext:
    """Worker `rank` of `workers`. `addresses` are host:port by rank; empty when alone."""

    run_directory: str
    attempt: int
    rank: int
    workers: int
    addresses: tuple[str, ...]
    rendezvous_timeout_s: float
    stall_timeout_s: float
    training: TrainingRequest
    credentials_file: str | None = None

    @property
    def is_chief(self) -> bool:
        return self.rank == 0

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> RunContext:
        """Read the contract's variables. Raises InvalidRequest naming the variable, what it holds and what it must."""
        _check_contract(environ)
        workers = _integer(environ, "LOCKSTEP_WORKERS", at_least=1)
        rank = _integer(environ, "LOCKSTEP_RANK", at_least=0)
        if rank >= workers:
            raise InvalidRequest(f"LOCKSTEP_RANK must be below LOCKSTEP_WORKERS={workers}, got {rank}")
        return cls(
            run_directory=_text(environ, "LOCKSTEP_RUN_DIRECTORY").rstrip("/"),
            attempt=_integer(environ, "LOCKSTEP_ATTEMPT", at_least=1),
            rank=rank,
            workers=workers,
            addresses=_addresses(environ, rank, workers),
            rendezvous_timeout_s=_seconds(environ, "LOCKSTEP_RENDEZVOUS_TIMEOUT_S", default=120.0),
            stall_timeout_s=_seconds(environ, "LOCKSTEP_STALL_TIMEOUT_S", default=600.0),
            training=parse_training_request(_text(environ, "LOCKSTEP_TRAINING")),
            credentials_file=environ.get("GOOGLE_APPLICATION_CREDENTIALS"),
        )


def termination_log(environ: Mapping[str, str]) -> str:
    """Where the termination message goes; readable even when the rest of the environment is wrong."""
    return environ.get("LOCKSTEP_TERMINATION_LOG") or DEFAULT_TERMINATION_LOG


def proxy_exceptions(environ: Mapping[str, str], addresses: tuple[str, ...]) -> str:
    """Value of `no_grpc_proxy` that keeps TensorFlow's gRPC between workers off any configured proxy."""
    hosts = [address.rpartition(":")[0].strip("[]") for address in addresses]
    already = environ.get("no_grpc_proxy") or environ.get("no_proxy") or ""
    return ",".join(dict.fromkeys([*filter(None, already.split(",")), *hosts]))


def _check_contract(environ: Mapping[str, str]) -> None:
    given = _text(environ, "LOCKSTEP_CONTRACT")
    if given != CONTRACT:
        raise InvalidRequest(
            f"this image speaks contract {CONTRACT}, LOCKSTEP_CONTRACT is {given!r}: use the plugin's own image"
        )


def _text(environ: Mapping[str, str], name: str) -> str:
    value = environ.get(name, "")
    if not value:
        raise InvalidRequest(f"environment variable {name} is missing or empty")
    return value


def _integer(environ: Mapping[str, str], name: str, at_least: int) -> int:
    text = _text(environ, name)
    try:
        value = int(text)
    except ValueError as error:
        raise InvalidRequest(f"{name} must be a whole number, got {text!r}") from error
    if value < at_least:
        raise InvalidRequest(f"{name} must be at least {at_least}, got {value}")
    return value


def _seconds(environ: Mapping[str, str], name: str, default: float) -> float:
    text = environ.get(name, str(default))
    try:
        value = float(text)
    except ValueError as error:
        raise InvalidRequest(f"{name} must be a number of seconds, got {text!r}") from error
    if not (value > 0 and math.isfinite(value)):
        raise InvalidRequest(f"{name} must be greater than 0, got {text}")
    return value


def _addresses(environ: Mapping[str, str], rank: int, workers: int) -> tuple[str, ...]:
    if workers == 1:
        if "TF_CONFIG" in environ:
            raise InvalidRequest("TF_CONFIG is set for a single worker, which trains alone: remove it")
        return ()
    chiefs, others, task = _parse_tf_config(_text(environ, "TF_CONFIG"))
    if len(chiefs) + len(others) != workers:
        raise InvalidRequest(f"TF_CONFIG names {len(chiefs) + len(others)} workers, LOCKSTEP_WORKERS is {workers}")
    own = {"type": "chief", "index": 0} if rank < len(chiefs) else {"type": "worker", "index": rank - len(chiefs)}
    if task != own:
        raise InvalidRequest(f"TF_CONFIG says this is task {task}, LOCKSTEP_RANK is {rank}, which is {own}")
    return chiefs + others


def _parse_tf_config(text: str) -> tuple[tuple[str, ...], tuple[str, ...], Any]:
    """The addresses of the chief (where the cluster has one) and of the workers, and which task this is."""
    try:
        config = json.loads(text)
        cluster, task = config["cluster"], config["task"]
        chiefs, others = tuple(cluster.get("chief", ())), tuple(cluster.get("worker", ()))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InvalidRequest(f"TF_CONFIG has no cluster with workers and task: {error!r} in {text!r}") from error
    if unknown := set(cluster) - {"chief", "worker"}:
        raise InvalidRequest(f"TF_CONFIG has {', '.join(sorted(unknown))}; this trainer knows a chief and workers only")
    if len(chiefs) > 1:
        raise InvalidRequest(f"TF_CONFIG names {len(chiefs)} chiefs, there can be one")
    for address in chiefs + others:
        if not (isinstance(address, str) and address.rpartition(":")[0] and address.rpartition(":")[2].isdigit()):
            raise InvalidRequest(f"TF_CONFIG names {address!r}, which is not host:port")
    return chiefs, others, task
