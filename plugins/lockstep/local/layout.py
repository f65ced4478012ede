"""Where the one-machine stack keeps its files. Paths only: nothing is read or made here."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

PROJECT_ROOT = Path(__file__).resolve().parents[3]
BUCKET = "lockstep"


@dataclass(frozen=True, kw_only=True, slots=True)
class StackLayout:
    """The folders of one stack: its own state, the project it serves and the DAGs that its Airflow reads."""

    state: Path
    root: Path
    dags: Path

    @classmethod
    def of(cls, state: Path, root: Path = PROJECT_ROOT, dags: Path | None = None) -> StackLayout:
        root = root.resolve()
        return cls(state=state.resolve(), root=root, dags=(dags or root / "dags").resolve())

    @property
    def state_file(self) -> Path:
        return self.state / "stack.json"

    @property
    def lock_file(self) -> Path:
        return self.state / "lock"

    @property
    def keys_file(self) -> Path:
        return self.state / "keys.json"

    @property
    def kubeconfig(self) -> Path:
        return self.state / "kubeconfig"

    @property
    def images_file(self) -> Path:
        return self.state / "images.json"

    @property
    def kube(self) -> Path:
        return self.state / "kube"

    @property
    def certificates(self) -> Path:
        return self.state / "certificates"

    @property
    def storage(self) -> Path:
        return self.state / "storage"

    @property
    def mlflow(self) -> Path:
        return self.state / "mlflow"

    @property
    def airflow_home(self) -> Path:
        return self.state / "airflow"

    @property
    def plugins(self) -> Path:
        return self.root / "plugins"

    @property
    def python_path(self) -> str:
        """What the services import from: the plugin's side and the trainer's side of the project."""
        return f"{self.plugins}:{self.root}"

    @property
    def programs(self) -> Path:
        """The folder of this Python environment's programs, as it was called: a resolved link would leave the venv."""
        return Path(sys.executable).parent

    def log(self, service: str) -> Path:
        return self.state / "logs" / f"{service}.log"
