"""How a process of the trainer ends: what went wrong is told in the log and in the termination message, and summed up
in the exit status."""

from __future__ import annotations

import os
import sys
import traceback
from typing import NoReturn

from trainer import exit_codes
from trainer.errors import TrainerError
from trainer.pulse import Pulse
from trainer.termination import TerminationMessage, one_line, traceback_of, write_termination_message


def report_failure(error: BaseException, workers: int, pulse: Pulse, log: str) -> int:
    """Say what happened; return the exit status."""
    phase, step = pulse.look()
    known = _known(error, workers)
    message = TerminationMessage(
        kind="user" if known is None else known.kind,
        message=one_line(error if known is None else known),
        step=step,
        phase=phase,
        traceback="" if isinstance(error, TrainerError) else traceback_of(error),
    )
    write_termination_message(log, message)
    if not isinstance(error, TrainerError):
        traceback.print_exception(error)
    print(message.message, file=sys.stderr)
    return exit_codes.USER_CODE if known is None else known.exit_code


def leave(status: int) -> NoReturn:
    """End the process without the interpreter's usual farewell: TensorFlow's would wait for peers that may be dead."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _known(error: BaseException, workers: int) -> TrainerError | None:
    if isinstance(error, TrainerError):
        return error
    if "tensorflow" not in sys.modules:
        return None
    from trainer.diagnosis import diagnose

    return diagnose(error, workers)
