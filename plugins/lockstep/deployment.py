"""What an installation decides once for all DAGs: Airflow's configuration section `[lockstep]`.

Every value can be overridden by an operator's argument; a DAG file that leaves them out runs unchanged on one machine
and on a cluster. Set them in airflow.cfg or as `AIRFLOW__LOCKSTEP__RUN_ROOT` and so on.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Annotated, Literal

from pydantic import Field

from lockstep.errors import InvalidSpec
from lockstep.parsing import parse
from lockstep.training_spec import GANG_SCHEDULINGS, GangScheduling

SECTION = "lockstep"


@dataclass(frozen=True, kw_only=True, slots=True)
class Deployment:
    """`run_root` is the gs://bucket/prefix under which runs write; `image` the trainer's. None: each DAG must say.

    `installation` names this Airflow, where several share a namespace.
    """

    installation: Annotated[str, Field(pattern=r"^[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$")] = "airflow"
    kubernetes_conn_id: str = "kubernetes_default"
    namespace: str = "default"
    service_account: str | None = None
    image: str | None = None
    run_root: str | None = None
    rendezvous: Literal["service", "loopback"] = "service"
    gang_scheduling: GangScheduling | None = None
    gang_queue: str | None = None
    network_policy: bool = False
    mlflow_tracking_uri: str | None = None


def deployment() -> Deployment:
    """Read the section. Raises InvalidSpec naming what is malformed in it."""
    from airflow.sdk.configuration import conf

    given = {field.name: conf.get(SECTION, field.name, fallback=None) for field in fields(Deployment)}
    return parse(
        Deployment,
        {key: value for key, value in given.items() if value},
        what=f"Airflow configuration section [{SECTION}]",
    )


def required(value: str | None, key: str) -> str:
    """`value`, or an InvalidSpec that tells where to give it."""
    if value:
        return value
    raise InvalidSpec(
        f"no {key} is given: pass {key}= to the operator, or set {key} in Airflow's configuration section [{SECTION}] "
        f"(environment variable AIRFLOW__{SECTION.upper()}__{key.upper()})"
    )


def chosen_scheduling(site: Deployment, asked: str | None) -> GangScheduling | None:
    """Who schedules a gang whose task asks for `asked`: `none` undoes the deployment's choice. Raises InvalidSpec."""
    if asked is None or asked == "none":
        return None if asked else site.gang_scheduling
    if (chosen := next((known for known in GANG_SCHEDULINGS if known == asked), None)) is None:
        raise InvalidSpec(f"gang_scheduling: {asked!r} is not one of {', '.join(GANG_SCHEDULINGS)}, none")
    return chosen


def chosen_queue(site: Deployment, scheduling: GangScheduling | None, asked: str | None) -> str | None:
    """The deployment's queue belongs to the deployment's scheduling, and to no other."""
    return asked or (site.gang_queue if scheduling == site.gang_scheduling else None)
