"""Imports TensorFlow quickly.

Keras imports matplotlib, pandas and scikit-learn wherever it finds them, for features that no training needs: that is
more than half of the processor time until TensorFlow is there.

What TensorFlow's libraries say meanwhile is left in the log as it comes, though most of it is noise about a GPU that is
not there: one that does not suit the machine ends the process, and its last words are all the evidence.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Final

SPARED: Final = ("matplotlib", "pandas", "sklearn")


@contextmanager
def lean_import() -> Iterator[None]:
    """Inside the block, SPARED cannot be imported, unless they are already."""
    hidden: dict[str, ModuleType | None] = {name: None for name in SPARED if name not in sys.modules}
    sys.modules.update(hidden)  # type: ignore[arg-type]  # None is how Python marks a module as absent
    try:
        yield
    finally:
        for name in hidden:
            del sys.modules[name]
