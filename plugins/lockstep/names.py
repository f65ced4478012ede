"""Every name that leaves the process: pods, hosts, labels, annotations, environment variables.

Kubernetes turns a pod's name into its host name and lets label values have 63 characters, so that is the room there is,
whatever the DAG is called (Kubernetes' documentation, "Object Names and IDs" and "Labels and Selectors").
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

CONTRACT_VERSION = "1"

LABEL_GANG = "lockstep/gang"
LABEL_INSTALLATION = "lockstep/installation"
LABEL_ATTEMPT = "lockstep/attempt"
LABEL_RANK = "lockstep/rank"
LABEL_ROLE = "lockstep/role"
LABEL_ROLE_INDEX = "lockstep/role-index"
LABEL_LAUNCH = "lockstep/launch"
LABEL_GANG_SCHEDULER = "lockstep/gang-scheduler"
ANNOTATION_RUN = "lockstep/run"
ANNOTATION_SPEC = "lockstep/spec"
ANNOTATION_TASK_INSTANCE = "lockstep/task-instance"
ANNOTATION_CLEAN_UP = "lockstep/clean-up"

ENV_CONTRACT = "LOCKSTEP_CONTRACT"
ENV_RUN_DIRECTORY = "LOCKSTEP_RUN_DIRECTORY"
ENV_ATTEMPT = "LOCKSTEP_ATTEMPT"
ENV_RANK = "LOCKSTEP_RANK"
ENV_WORKERS = "LOCKSTEP_WORKERS"
ENV_RENDEZVOUS_TIMEOUT = "LOCKSTEP_RENDEZVOUS_TIMEOUT_S"
ENV_STALL_TIMEOUT = "LOCKSTEP_STALL_TIMEOUT_S"
ENV_TRAINING = "LOCKSTEP_TRAINING"
ENV_TF_CONFIG = "TF_CONFIG"

MAX_NAME = 63
_ROOM_FOR_ATTEMPT_AND_RANK = len("-9999-w99999")
_DIGEST_LENGTH = 10


@dataclass(frozen=True, kw_only=True, slots=True)
class GangId:
    """Which task instance a gang belongs to; the same for every Airflow try and every attempt of the gang.

    `installation` tells Airflows apart that share a namespace.
    """

    dag_id: str
    run_id: str
    task_id: str
    map_index: int = -1
    installation: str = "airflow"

    @property
    def name(self) -> str:
        """A DNS label, readable at its start and unique by its end: `<dag>-<task>-<digest>`."""
        identity = "\0".join((self.installation, self.dag_id, self.run_id, self.task_id, str(self.map_index)))
        digest = hashlib.sha256(identity.encode()).hexdigest()[:_DIGEST_LENGTH]
        room = MAX_NAME - _ROOM_FOR_ATTEMPT_AND_RANK - _DIGEST_LENGTH - 1
        readable = dns_label(f"{self.dag_id}-{self.task_id}", room)
        return f"{readable}-{digest}"

    def __str__(self) -> str:
        mapped = f"[{self.map_index}]" if self.map_index >= 0 else ""
        return f"{self.dag_id}.{self.task_id}{mapped} of {self.run_id}"


def service_name(gang: GangId) -> str:
    """One Service serves all attempts, so that whoever creates it owns the gang."""
    return gang.name


def group_name(gang: GangId, attempt: int) -> str:
    """What an attempt's further objects are called, its scheduler's group above all: they may outlive its pods."""
    return f"{gang.name}-{attempt}"


def worker_name(gang: GangId, attempt: int, rank: int) -> str:
    return f"{gang.name}-{attempt}-w{rank}"


def worker_host(gang: GangId, attempt: int, rank: int, namespace: str) -> str:
    """The name under which a worker's peers reach it; short of the cluster's domain, which the resolver appends."""
    return f"{worker_name(gang, attempt, rank)}.{service_name(gang)}.{namespace}.svc"


def gang_labels(gang: GangId) -> dict[str, str]:
    """Labels of all objects of a gang. The three Airflow ones have the keys that KubernetesPodOperator uses."""
    return {
        LABEL_GANG: gang.name,
        LABEL_INSTALLATION: gang.installation,
        "dag_id": label_value(gang.dag_id),
        "run_id": label_value(gang.run_id),
        "task_id": label_value(gang.task_id),
    }


def gang_selector(gang: GangId, launch: str | None = None) -> str:
    """Selects the pods of all launches, or of the one whose Service has the UID `launch`."""
    gangs = f"{LABEL_GANG}={gang.name}"
    return gangs if launch is None else f"{gangs},{LABEL_LAUNCH}={launch}"


def installation_selector(installation: str) -> str:
    """Selects what belongs to any gang of one Airflow."""
    return f"{LABEL_GANG},{LABEL_INSTALLATION}={installation}"


def dns_label(text: str, room: int) -> str:
    """`text` as the start of a DNS label of at most `room` characters: lower case, letters, digits and dashes.

    A leading digit is fine in a pod's name but not in a Service's (RFC 1035), hence the letter put before it.
    """
    label = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    if not label or not label[0].isalpha():
        label = f"g-{label}".rstrip("-")
    return label[:room].rstrip("-")


def label_value(text: str) -> str:
    """`text` if it is a valid label value, otherwise a valid one that stays unique by a digest at its end."""
    safe = re.sub(r"[^A-Za-z0-9_.-]+", "-", text).strip("-_.")
    if safe == text and len(safe) <= MAX_NAME:
        return safe
    digest = hashlib.sha256(text.encode()).hexdigest()[:_DIGEST_LENGTH]
    return f"{safe[: MAX_NAME - _DIGEST_LENGTH - 1].rstrip('-_.')}-{digest}".lstrip("-")
