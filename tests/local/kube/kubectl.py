"""kubectl as a person uses it: a command line, its output, and a stream to read from."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

_TIMEOUT_S = 60


@dataclass(frozen=True, kw_only=True)
class Kubectl:
    """The program and the environment that leads it to a server."""

    program: str
    env: Mapping[str, str]

    def __call__(self, *words: str, stdin: str = "", code: int = 0) -> str:
        """Run one command and return what it printed, on both streams; the exit code must be as given."""
        ended = subprocess.run(
            [self.program, *words],
            input=stdin,
            env=dict(self.env),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
        assert ended.returncode == code, ended.stdout
        return ended.stdout

    @contextmanager
    def streaming(self, *words: str) -> Iterator[Iterator[str]]:
        """Run a command that goes on by itself, and read its lines; it is ended with the block."""
        process = subprocess.Popen([self.program, *words], env=dict(self.env), stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        try:
            yield iter(process.stdout)
        finally:
            process.kill()
            process.wait(_TIMEOUT_S)
            process.stdout.close()


def kubectl_program() -> str | None:
    return shutil.which("kubectl")
