"""docs/faults.md tells what was tried: every test that it names is there, and every test of this folder is named."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
NAMED = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", (ROOT / "docs" / "faults.md").read_text())


def names_in(file: Path) -> set[str]:
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    tree = ast.parse(file.read_text())
    return {each.name for each in tree.body if isinstance(each, functions) and each.name.startswith("test_")}


def test_every_test_that_is_named_exists() -> None:
    assert [f"{file}::{name}" for file, name in NAMED if name not in names_in(ROOT / file)] == []


def test_every_test_of_a_fault_is_named() -> None:
    named = {name for _, name in NAMED}
    files = (file for file in Path(__file__).parent.glob("test_*.py") if file != Path(__file__))
    assert {name for file in files for name in names_in(file)} - named == set()
