"""What is spared during the import of TensorFlow is there afterwards, and nothing that matters is kept from the log."""

from __future__ import annotations

import subprocess
import sys


def run(story: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", story], capture_output=True, text=True, timeout=60)


def test_spared_packages_can_be_imported_afterwards() -> None:
    done = run("""
from trainer.lean_import import lean_import
with lean_import():
    try:
        import pandas
    except ImportError:
        print("spared")
import pandas
print("there again")
""")
    assert done.stdout.split("\n")[:2] == ["spared", "there again"]


def test_what_was_said_during_a_failed_import_is_shown() -> None:
    done = run("""
import os
from trainer.lean_import import lean_import
with lean_import():
    os.write(2, b"no GPU here\\n")
with lean_import():
    os.write(2, b"undefined symbol\\n")
    raise ImportError("a library is broken")
""")
    assert "no GPU here" not in done.stderr
    assert "undefined symbol" in done.stderr
    assert "ImportError: a library is broken" in done.stderr
