"""Every error that Lockstep raises, grouped by what its reader can do about it.

A message says who, what, the evidence and the next step. Nothing secret goes into one: callers quote names, never
values of environment variables, tokens or connection passwords.
"""

from __future__ import annotations

from lockstep.failure_class import FailureClass


class LockstepError(Exception):
    """Base of all errors raised here; `retryable` tells Airflow whether another try can help."""

    retryable = False

    @property
    def told(self) -> str:
        """The message, with what was noted on it afterwards: a clean-up that failed, for instance."""
        return "; ".join([str(self), *getattr(self, "__notes__", ())])


class InvalidSpec(LockstepError):
    """The request is wrong: mend the DAG or its parameters. Raised before anything is created."""


class NotPermitted(LockstepError):
    """An identity lacks a right, or what it should use does not exist: mend the installation."""


class GangEnded(LockstepError):
    """The gang ended without success. `kind` says whose business it is, `step` is the last that was heard of.

    Without a `kind` the gang is not started anew within the same Airflow try.
    """

    def __init__(self, message: str, *, kind: FailureClass | None = None, step: int | None = None) -> None:
        super().__init__(message)
        self.kind, self.step = kind, step


class GangFailed(GangEnded):
    """The user's code or data ended the gang: the same request would fail again."""


class GangLost(GangEnded):
    """The infrastructure ended the gang, or never started it: another try may succeed."""

    retryable = True


class GangTimedOut(GangEnded):
    """A time limit passed; another try may succeed."""

    retryable = True


class TaskStopped(LockstepError):
    """Airflow told the process to stop, whatever becomes of the gang."""

    retryable = True


class ClusterUnavailable(LockstepError):
    """The Kubernetes API did not answer properly, though asked repeatedly; another try may succeed."""

    retryable = True


class QuotaExceeded(ClusterUnavailable):
    """The namespace has no room for the gang now; it may have when others have ended."""


class CheckpointRejected(LockstepError):
    """Training ended, but what it left behind must not be called a model."""


class StorageUnavailable(LockstepError):
    """Cloud Storage did not answer properly; another try may succeed."""

    retryable = True


class RegistryUnavailable(LockstepError):
    """The model registry did not answer properly; another try may succeed."""

    retryable = True


class RegistrationRefused(LockstepError):
    """The registry, or the state of the run directory, does not allow this registration."""
