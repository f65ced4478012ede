"""Errors sorted by what the reader can do about them. Each knows its kind and exit status in the contract.

Exceptions of the user's own code are not wrapped: they are everything that is not named here.
"""

from __future__ import annotations

from typing import ClassVar

from trainer import exit_codes


class TrainerError(Exception):
    """Ends this worker in an orderly way. The message says who, what, the evidence and the next step."""

    kind: ClassVar[str]
    exit_code: ClassVar[int]


class InvalidRequest(TrainerError):
    """What was asked cannot be done as asked: change the request, a retry will not help."""

    kind = "request"
    exit_code = exit_codes.REQUEST


class InvalidData(TrainerError):
    """The data is missing, too little or damaged: mend the data."""

    kind = "data"
    exit_code = exit_codes.DATA


class PeerLost(TrainerError):
    """Another worker is missing or died; this one is collateral and never the cause."""

    kind = "peer_lost"
    exit_code = exit_codes.PEER_LOST


class StorageUnavailable(TrainerError):
    """Storage does not answer, though asked repeatedly: nothing here is to mend, and another attempt may succeed, as
    after a stall, whose exit status it shares."""

    kind = "storage"
    exit_code = exit_codes.STALLED


class Stopped(TrainerError):
    """The gang was asked to stop; the next attempt resumes from the state that it saved."""

    kind = "stopped"
    exit_code = exit_codes.STOPPED


class NonFinite(ArithmeticError):
    """The loss is no longer a number. It is the model's doing, hence counted as the user's code."""
