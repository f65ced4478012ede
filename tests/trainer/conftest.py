"""What the trainer's tests share: the digits as TFRecord files, and workers as processes."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")


@pytest.fixture(scope="session")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The digits in 8 files, as the demo writes them."""
    from trainer.examples.digits import prepare

    directory = tmp_path_factory.mktemp("digits")
    with contextlib.redirect_stdout(io.StringIO()):
        prepare(str(directory), files=8)
    return directory


@pytest.fixture(scope="module")
def gangs(tmp_path_factory: pytest.TempPathFactory, digits: Path) -> Iterator[object]:
    """Starts gangs whose processes are gone when the module's tests are over."""
    from tests.trainer.gangs import Gangs

    with Gangs(tmp_path_factory, digits) as started:
        yield started
