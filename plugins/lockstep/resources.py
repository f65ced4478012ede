"""What each pod of a gang gets of its node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import ConfigDict, Field

from lockstep.parsing import STRICT_KEYS


@dataclass(frozen=True, kw_only=True, slots=True)
class Resources:
    """Kubernetes quantities for each worker; requests equal limits, so that no neighbour squeezes a worker."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT_KEYS

    cpu: str | None = None
    memory: str | None = None
    gpu: Annotated[int, Field(ge=0)] = 0
    gpu_resource: str = "nvidia.com/gpu"

    def quantities(self) -> dict[str, str]:
        asked = {"cpu": self.cpu, "memory": self.memory, self.gpu_resource: str(self.gpu) if self.gpu else None}
        return {name: quantity for name, quantity in asked.items() if quantity}
