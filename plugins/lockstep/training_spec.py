"""What the DAG author asked for: parsed, checked, frozen.

`Training` is what the trainer is asked and travels into the pods and into `spec.json`; `TrainingSpec` adds what the
gang needs. Nothing here knows Airflow or Kubernetes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import ConfigDict, Field, JsonValue

from lockstep.errors import InvalidSpec
from lockstep.gs_url import GsUrl
from lockstep.parsing import STRICT_KEYS, to_json
from lockstep.resources import Resources
from lockstep.roles import TRAIN, Member, RoleName, Roles, numbered

TRAINER = ("python", "-m", "trainer")
Count = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(gt=0)]
CleanUp = Literal["delete", "delete_succeeded", "keep"]
Logs = Literal["chief", "all"]
GangScheduling = Literal["kueue", "volcano", "coscheduling", "native"]
LARGEST_SEED = 2**32 - 2
"""NumPy takes 32 bits, and the trainer adds 1."""
GANG_SCHEDULINGS: tuple[GangScheduling, ...] = get_args(GangScheduling)
HAVE_QUEUES: tuple[GangScheduling, ...] = ("kueue", "volcano")


@dataclass(frozen=True, kw_only=True, slots=True)
class Training:
    """What to train, on which data, and how fast. The keys are those of `LOCKSTEP_TRAINING`, contract version 1.

    `learning_rate` holds at a batch of `learning_rate_batch_size` samples and scales linearly with the global batch
    (the linear scaling rule of Goyal et al., 2017). Where that size is not given it is `per_replica_batch_size`, so
    that the rate grows with the replicas, or `global_batch_size`, so that it does not.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT_KEYS

    job: Annotated[str, Field(pattern=r"^[\w.]+:[\w.]+$")]
    train_data: str
    eval_data: str | None = None
    train_samples: Count | None = None
    job_params: dict[str, JsonValue] = field(default_factory=dict)
    sharding: Literal["auto", "file", "data"] = "auto"
    epochs: Count = 1
    per_replica_batch_size: Count | None = None
    global_batch_size: Count | None = None
    learning_rate: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 0.001
    learning_rate_batch_size: Count | None = None
    warmup_epochs: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 1.0
    seed: Annotated[int, Field(ge=0, le=LARGEST_SEED)] = 0
    backup_every_steps: Count = 100

    def __post_init__(self) -> None:
        if (self.per_replica_batch_size is None) == (self.global_batch_size is None):
            raise InvalidSpec("training: give exactly one of per_replica_batch_size and global_batch_size")

    def check_batch(self, replicas: int) -> None:
        """Refuse a batch that so many replicas cannot share evenly, or that the data are too few for."""
        batch = self.global_batch_size or (self.per_replica_batch_size or 0) * replicas
        if batch % replicas:
            raise InvalidSpec(
                f"training.global_batch_size: {batch} cannot be split evenly over {replicas} replicas; "
                f"ask for a multiple of {replicas}"
            )
        if self.train_samples is not None and batch > self.train_samples:
            raise InvalidSpec(
                f"training: a global batch of {batch} is more than all train_samples, {self.train_samples}; "
                "ask for a smaller batch or fewer workers"
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class Timeouts:
    """Seconds. `grace_s` is what a worker has to save and leave.

    `queue_s` is how long a queue may hold the gang back, `startup_s` how long all containers may then take to run, and
    `run_s` how long they may run.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT_KEYS

    queue_s: Seconds = 86_400.0
    startup_s: Seconds = 600.0
    run_s: Seconds | None = None
    rendezvous_s: Seconds = 300.0
    stall_s: Seconds = 600.0
    grace_s: Annotated[int, Field(ge=1)] = 30


@dataclass(frozen=True, kw_only=True, slots=True)
class PodShape:
    """What pods of one role have in common that those of another may have differently."""

    resources: Resources
    command: tuple[str, ...]
    pod_options: dict[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingSpec:
    """One training on one gang. `workers` counts those that train: with `roles`, the chief and the workers."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT_KEYS

    image: Annotated[str, Field(min_length=1, pattern=r"^\S+$")]
    workers: Count
    run_directory: str
    training: Training
    command: tuple[str, ...] = TRAINER
    namespace: str = "default"
    service_account: str | None = None
    resources: Resources = field(default_factory=Resources)
    roles: Roles | None = None
    env: dict[str, str] = field(default_factory=dict)
    port: Annotated[int, Field(ge=1, le=65535)] = 2222
    rendezvous: Literal["service", "loopback"] = "service"
    timeouts: Timeouts = field(default_factory=Timeouts)
    gang_scheduling: GangScheduling | None = None
    gang_queue: Annotated[str, Field(max_length=63, pattern=r"^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$")] | None = None
    network_policy: bool = False
    clean_up: CleanUp = "delete"
    logs: Logs = "chief"
    pod_options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        GsUrl.parse(self.run_directory, what="run_directory")
        if reserved := sorted(name for name in self.env if name == "TF_CONFIG" or name.startswith("LOCKSTEP_")):
            raise InvalidSpec(f"env: {', '.join(reserved)}: set by Lockstep for each worker; remove it from env")
        self._check_scheduling()
        self._check_roles()
        self._check_batch()

    @property
    def members(self) -> tuple[Member, ...]:
        """Every pod of the gang, by rank."""
        return self.roles.members if self.roles else numbered(["worker"] * self.workers)

    def shape(self, name: RoleName) -> PodShape:
        """The pods of a role; what it leaves open is that of all."""
        role = self.roles.named(name) if self.roles else None
        if role is None:
            return PodShape(resources=self.resources, command=self.command, pod_options=self.pod_options)
        return PodShape(
            resources=role.resources or self.resources,
            command=role.command or self.command,
            pod_options=self.pod_options | role.pod_options,
        )

    def request(self) -> dict[str, Any]:
        """What of this decides the outcome, and so may not change within a run directory (`spec.json`)."""
        return {"schema": 1, "workers": self.workers, "training": to_json(self.training)}

    def _check_batch(self) -> None:
        """What our trainer would refuse; another program's replicas are its own business."""
        shapes = [self.shape(member.role) for member in self.members]
        if all(shape.command[: len(TRAINER)] == TRAINER for shape in shapes):
            self.training.check_batch(sum(max(shape.resources.gpu, 1) for shape in shapes))

    def _check_roles(self) -> None:
        if self.roles is None:
            return
        if self.workers != self.roles.trainers:
            raise InvalidSpec(f"workers: {self.workers} asked for, and roles have {self.roles.trainers} that train")
        ours = [name for name in self.roles.given if self.shape(name).command[: len(TRAINER)] == TRAINER]
        self._check_our_trainer(ours, with_ps=self.roles.ps is not None)

    def _check_our_trainer(self, roles: Sequence[RoleName], *, with_ps: bool) -> None:
        """It knows one way to train: alike in all pods, and without parameter servers."""
        for name in roles:
            if name not in TRAIN or with_ps:
                alone = ", and not with parameter servers" if name in TRAIN else ""
                raise InvalidSpec(
                    f"roles.{name}: `{' '.join(TRAINER)}` trains as chief and as worker only{alone}; give a program of "
                    f"your own, as roles.{name}.command or as command of all"
                )
        gpus = {name: self.shape(name).resources.gpu for name in roles}
        if len(set(gpus.values())) > 1:
            told = ", ".join(f"{name} {count}" for name, count in gpus.items())
            raise InvalidSpec(f"roles: MultiWorkerMirroredStrategy needs as many GPUs in every pod, got {told}")

    def _check_scheduling(self) -> None:
        chosen = self.gang_scheduling
        if chosen == "kueue" and self.gang_queue is None:
            raise InvalidSpec("gang_queue: gang_scheduling 'kueue' needs the name of a LocalQueue of the namespace")
        if self.gang_queue is not None and chosen not in HAVE_QUEUES:
            without = f"gang_scheduling {chosen!r} has no queues" if chosen else "no gang_scheduling is given"
            raise InvalidSpec(f"gang_queue: {without}; leave it out, or choose one of {', '.join(HAVE_QUEUES)}")
        if chosen and self.rendezvous == "loopback":
            raise InvalidSpec(
                f"gang_scheduling: {chosen!r} takes the pods of a gang for alike, and rendezvous 'loopback' gives each "
                "its own port of one machine, where nothing is to be scheduled; leave gang_scheduling out there"
            )
