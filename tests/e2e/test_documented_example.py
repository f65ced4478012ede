"""docs/testing-your-dags.md tells the truth: its repository, made as it says, passes its own tests."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "testing-your-dags.md"
FILE = re.compile(r"^`(?P<path>\S+)`\n```\w+\n(?P<content>.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_documented_repository_passes_its_tests(tmp_path: Path) -> None:
    """Another repository, in which Lockstep is only on the path: its own job, its own DAG, the plugin by `-p`."""
    files = {found["path"]: found["content"] for found in FILE.finditer(PAGE.read_text())}
    assert set(files) == {
        "jobs/small_digits.py",
        "dags/nightly_digits.py",
        "pytest.ini",
        "tests/test_nightly_digits.py",
    }
    for path, content in files.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(content)

    ended = run_pytest(tmp_path)

    assert "4 passed" in ended.stdout, ended.stdout[-8000:] + ended.stderr[-2000:]
    assert ended.returncode == 0


def run_pytest(repository: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "PYTEST"))}
    environment |= {"PYTHONPATH": os.pathsep.join(map(str, (ROOT / "plugins", ROOT)))}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *arguments],
        cwd=repository,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
