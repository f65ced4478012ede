"""A worker as a process of its own, forked from a server that has imported TensorFlow already: imports are most of a
short training's time. From there on it is `python -m trainer`."""

from __future__ import annotations

import os
from collections.abc import Mapping

from trainer.__main__ import main
from trainer.lean_import import lean_import

with lean_import():
    import trainer.worker  # noqa: F401  # imported here for the workers that are forked from here


def run_worker_process(environ: Mapping[str, str], log: str) -> None:
    """Become the worker that `environ` describes, its output in `log`. Never returns."""
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.environ.clear()
    os.environ.update(environ)
    main()
