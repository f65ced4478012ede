"""Secrets of the stack's Airflow: made once, kept in a file that only its owner can read, never printed."""

from __future__ import annotations

import base64
import json
import secrets
from dataclasses import asdict, dataclass, field
from pathlib import Path

from lockstep.local.certificates import write_private


def _new_secret() -> str:
    return base64.urlsafe_b64encode(secrets.token_bytes(32)).decode()


@dataclass(frozen=True, kw_only=True, slots=True)
class AirflowKeys:
    """What Airflow's processes must agree on: each is 32 random bytes in URL-safe base64."""

    jwt_secret: str = field(default_factory=_new_secret, repr=False)
    secret_key: str = field(default_factory=_new_secret, repr=False)
    fernet_key: str = field(default_factory=_new_secret, repr=False)

    @classmethod
    def kept_in(cls, file: Path) -> AirflowKeys:
        """Return the keys of the file; make and keep new ones if there is none."""
        if file.exists():
            return cls(**json.loads(file.read_text()))
        keys = cls()
        file.parent.mkdir(parents=True, exist_ok=True)
        write_private(file, json.dumps(asdict(keys)).encode())
        return keys
