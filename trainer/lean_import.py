"""Imports a package as if some others were not installed.

Keras imports matplotlib and scikit-learn wherever it finds them, for plots and wrappers that no training needs; that is
a third of the seconds until TensorFlow is there.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType


@contextmanager
def without_modules(*names: str) -> Iterator[None]:
    """Inside the block, importing any of `names` fails as if it were not installed; afterwards it works again."""
    hidden: dict[str, ModuleType | None] = {name: sys.modules.get(name) for name in names}
    sys.modules.update(dict.fromkeys(names))  # type: ignore[arg-type]  # None is how Python marks a module as absent
    try:
        yield
    finally:
        for name, module in hidden.items():
            del sys.modules[name]
            if module is not None:
                sys.modules[name] = module
