"""What is spared during the import of TensorFlow is there afterwards, and nothing is kept from the log."""

from __future__ import annotations

import signal
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


def test_the_last_words_of_a_library_that_aborts_are_in_the_log() -> None:
    """SIGILL on an old processor, a CUDA library of another version: no Python code runs after that."""
    done = run("""
import os
from trainer.lean_import import lean_import
with lean_import():
    os.write(2, b"compiled to use AVX instructions\\n")
    os.abort()
""")
    assert done.returncode == -signal.SIGABRT
    assert "compiled to use AVX instructions" in done.stderr
