"""Airflow loads `plugins/` without executing a single file of the package as a module of its own.

Each case is a process that asks Airflow's own plugin manager, as a scheduler or an API server would.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PLUGINS = Path(__file__).parents[2] / "plugins"

LOAD = """
import json, sys
from pathlib import Path
from airflow import plugins_manager, settings

settings.initialize()
folder = Path(settings.PLUGINS_FOLDER).resolve()
before = set(sys.modules)
plugins, errors = plugins_manager._get_plugins()

def ours(module):
    path = getattr(module, "__file__", None)
    return path is not None and folder in Path(path).resolve().parents

import lockstep.errors
print("\\n" + json.dumps({
    "plugins": [plugin.name for plugin in plugins],
    "errors": errors,
    "executed": sorted(name for name, module in list(sys.modules.items()) if ours(module) and name not in before),
    "links": [link.name for link in plugins_manager.get_operator_extra_links()],
    "package": lockstep.errors.__file__,
}))
"""


def load(folder: Path, home: Path, **settings: str) -> dict[str, Any]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "PYTHONPATH"))}
    environment |= {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(folder),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "PYTHONDONTWRITEBYTECODE": "1",
        **settings,
    }
    done = subprocess.run([sys.executable, "-c", LOAD], env=environment, cwd=home, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    loaded: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return loaded


@pytest.mark.parametrize("syntax", ["glob", "regexp"])
def test_only_the_plugin_file_is_executed(syntax: str, tmp_path: Path) -> None:
    """Under both ignore syntaxes: one plugin, no error, and every other module is reached as lockstep.*."""
    loaded = load(PLUGINS, tmp_path, AIRFLOW__CORE__DAG_IGNORE_FILE_SYNTAX=syntax)
    assert loaded["plugins"].count("lockstep") == 1
    assert loaded["errors"] == {}
    assert [name for name in loaded["executed"] if name.split(".")[0] != "lockstep"] == ["lockstep_plugin"]
    assert {"Model version", "Run directory"} <= set(loaded["links"])
    assert Path(loaded["package"]).is_relative_to(PLUGINS)


def test_without_the_ignore_file_the_package_would_be_executed_file_by_file(tmp_path: Path) -> None:
    """So that the claim above can fail. Files that run when executed stay out: one would end Airflow's process."""
    folder = tmp_path / "plugins"
    shutil.copytree(
        PLUGINS, folder, ignore=shutil.ignore_patterns(".airflowignore", "local", "__main__.py", "__pycache__")
    )
    executed = load(folder, tmp_path)["executed"]
    assert {"errors", "checkpoint", "model_registry"} <= set(executed)
