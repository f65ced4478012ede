"""`python -m trainer`: one worker of a gang, from its environment to its exit status and termination message.

What it does in between is told in `worker`; what an error means in `errors` and `diagnosis`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, MutableMapping
from pathlib import Path
from typing import Any, NoReturn

from trainer import exit_codes
from trainer.actions.watchdog import Watchdog
from trainer.ending import leave, report_failure
from trainer.errors import PeerLost
from trainer.hard_deadline import hard_deadline
from trainer.lean_import import lean_import
from trainer.pulse import Pulse
from trainer.run_context import RunContext, proxy_exceptions, termination_log
from trainer.stop_request import StopRequest
from trainer.termination import TerminationMessage, write_termination_message


def main() -> NoReturn:
    """Run this worker and end the process."""
    leave(run(os.environ))


def run(environ: MutableMapping[str, str]) -> int:
    """Run the worker that `environ` describes; return its exit status."""
    log, pulse, stop = termination_log(environ), Pulse(), StopRequest()
    workers = 1
    try:
        stop.end_at_once()
        context = RunContext.from_env(environ)
        workers = context.workers
        _prepare_tensorflow(environ, context)
        _train(context, pulse, stop, log)
    except (Exception, KeyboardInterrupt) as error:
        return report_failure(error, workers, pulse, log)
    return exit_codes.DONE


def _prepare_tensorflow(environ: MutableMapping[str, str], context: RunContext) -> None:
    """What must stand in the environment before TensorFlow is imported."""
    environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    environ.setdefault("KERAS_BACKEND", "tensorflow")
    if context.addresses:
        environ["no_grpc_proxy"] = proxy_exceptions(environ, context.addresses)


def _train(context: RunContext, pulse: Pulse, stop: StopRequest, log: str) -> None:
    with lean_import():
        from trainer.worker import run_worker, start_strategy

    Watchdog(pulse, context.stall_timeout_s, log).start()
    run_worker(context, pulse, stop, lambda: _protected(lambda: start_strategy(context), context, log))


def _protected(start: Callable[[], Any], context: RunContext, log: str) -> Any:
    """A peer that dies between the rendezvous and here would leave TensorFlow waiting, deaf to everything. The message
    is written beforehand: at the deadline no Python runs any more."""
    if context.workers == 1:
        return start()
    text = f"PeerLost: a peer met at the rendezvous did not start TensorFlow within {context.rendezvous_timeout_s:g} s"
    write_termination_message(log, TerminationMessage(kind=PeerLost.kind, message=text, phase="rendezvous"))
    with hard_deadline(context.rendezvous_timeout_s, exit_codes.PEER_LOST):
        strategy = start()
    _clear(log)
    return strategy


def _clear(log: str) -> None:
    try:
        Path(log).write_bytes(b"")
    except OSError as error:
        print(f"{log} cannot be cleared: {error}", file=sys.stderr)


if __name__ == "__main__":
    main()
