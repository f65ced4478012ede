"""Imports TensorFlow as if some packages were not installed.

Keras imports matplotlib, pandas and scikit-learn wherever it finds them, for features that no training needs: that is
more than half of the processor time until TensorFlow is there.
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
    """Inside the block, SPARED cannot be imported; afterwards, they can. Does nothing for what is imported already."""
    hidden: dict[str, ModuleType | None] = {name: None for name in SPARED if name not in sys.modules}
    sys.modules.update(hidden)  # type: ignore[arg-type]  # None is how Python marks a module as absent
    try:
        yield
    finally:
        for name in hidden:
            del sys.modules[name]
