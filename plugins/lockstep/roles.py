"""Who does what in a gang: TensorFlow's task types, how many pods there are of each, and what is special about them.

Without roles a gang is N equal workers, of which TensorFlow takes worker 0 for the chief.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import ConfigDict, Field

from lockstep.errors import InvalidSpec
from lockstep.parsing import STRICT_KEYS
from lockstep.resources import Resources

RoleName = Literal["chief", "worker", "ps", "evaluator"]
ROLES: tuple[RoleName, ...] = get_args(RoleName)
"""In order of rank: the chief, where there is one, has rank 0."""
TRAIN: tuple[RoleName, ...] = ("chief", "worker")
"""Whose success is the gang's. The others serve or watch, and are ended with it."""
ONE_AT_MOST: tuple[RoleName, ...] = ("chief", "evaluator")


@dataclass(frozen=True, kw_only=True, slots=True)
class Role:
    """The pods of one role. What is not given is that of all pods; `pod_options` are added to theirs, key by key."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT_KEYS

    replicas: Annotated[int, Field(ge=1)] = 1
    resources: Resources | None = None
    command: tuple[str, ...] | None = None
    pod_options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Member:
    """One pod of a gang, as TensorFlow calls it: the `index`-th of its `role`."""

    role: RoleName
    index: int

    def __str__(self) -> str:
        return f"{self.role} {self.index}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Roles:
    """The roles that there are in a gang; at least one pod trains."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT_KEYS

    chief: Role | None = None
    worker: Role | None = None
    ps: Role | None = None
    evaluator: Role | None = None

    def __post_init__(self) -> None:
        for name in ONE_AT_MOST:
            if (role := self.named(name)) is not None and role.replicas > 1:
                raise InvalidSpec(f"roles.{name}.replicas: TensorFlow knows one {name} at most, got {role.replicas}")
        if not self.trainers:
            raise InvalidSpec("roles: nobody trains; give a chief, or workers")
        if self.ps is not None and self.worker is None:
            raise InvalidSpec("roles.ps: parameter servers serve workers; give workers too")

    @property
    def given(self) -> dict[RoleName, Role]:
        """The roles that have pods, in order of rank."""
        return {name: role for name in ROLES if (role := self.named(name)) is not None}

    @property
    def members(self) -> tuple[Member, ...]:
        """All pods, by rank."""
        return numbered(name for name, role in self.given.items() for _ in range(role.replicas))

    @property
    def trainers(self) -> int:
        """How many pods train."""
        return sum(role.replicas for name, role in self.given.items() if name in TRAIN)

    def named(self, name: RoleName) -> Role | None:
        role: Role | None = getattr(self, name)
        return role


def numbered(roles: Iterable[RoleName]) -> tuple[Member, ...]:
    """Members with these roles, by rank; each role counts from 0."""
    seen: Counter[RoleName] = Counter()
    members = []
    for role in roles:
        members.append(Member(role, seen[role]))
        seen[role] += 1
    return tuple(members)
