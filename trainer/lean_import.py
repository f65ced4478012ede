"""Imports TensorFlow quickly and quietly.

Keras imports matplotlib, pandas and scikit-learn wherever it finds them, for features that no training needs: that is
more than half of the processor time until TensorFlow is there. And TensorFlow's libraries tell the log that there is no
GPU before anybody can ask them not to.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Final

SPARED: Final = ("matplotlib", "pandas", "sklearn")


@contextmanager
def lean_import() -> Iterator[None]:
    """Inside the block, SPARED cannot be imported, unless they are already, and stderr is shown only if it fails."""
    with _absent(SPARED), _stderr_shown_on_failure():
        yield


@contextmanager
def _absent(names: Sequence[str]) -> Iterator[None]:
    hidden: dict[str, ModuleType | None] = {name: None for name in names if name not in sys.modules}
    sys.modules.update(hidden)  # type: ignore[arg-type]  # None is how Python marks a module as absent
    try:
        yield
    finally:
        for name in hidden:
            del sys.modules[name]


@contextmanager
def _stderr_shown_on_failure() -> Iterator[None]:
    """Works on the file descriptor, because it is C++ that writes."""
    sys.stderr.flush()
    shown = os.dup(2)
    with tempfile.TemporaryFile() as kept:
        os.dup2(kept.fileno(), 2)
        try:
            yield
        except BaseException:
            kept.seek(0)
            os.write(shown, kept.read())
            raise
        finally:
            sys.stderr.flush()
            os.dup2(shown, 2)
            os.close(shown)
