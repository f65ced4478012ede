"""The plugin writes the environment, the trainer reads it: two code bases, one contract."""

from __future__ import annotations

from typing import Any

import pytest

from lockstep.names import GangId
from lockstep.parsing import parse
from lockstep.pod_plan import GangPlan, plan_gang
from lockstep.roles import Roles
from tests.unit.builders import spec
from trainer.run_context import RunContext

GANG = GangId(dag_id="nightly", run_id="scheduled__2026-12-01T00:00:00+00:00", task_id="train")


def planned(workers: int, rendezvous: str = "service") -> GangPlan:
    ports = range(40_000, 40_000 + workers) if rendezvous == "loopback" else ()
    timeouts = {"rendezvous_s": 7, "stall_s": 8.5}
    return plan_gang(
        spec(workers=workers, rendezvous=rendezvous, timeouts=timeouts), GANG, attempt=3, loopback_ports=ports
    )


@pytest.mark.parametrize("rendezvous", ["service", "loopback"])
@pytest.mark.parametrize("workers", [1, 2, 5])
def test_each_planned_environment_is_read_as_worker_i_of_n(workers: int, rendezvous: str) -> None:
    plan = planned(workers, rendezvous)
    for rank, worker in enumerate(plan.workers):
        context = RunContext.from_env(worker.env)
        assert (context.rank, context.workers, context.attempt) == (rank, workers, 3)
        assert context.run_directory == plan.spec.run_directory
        assert (context.rendezvous_timeout_s, context.stall_timeout_s) == (7.0, 8.5)
        expected = tuple(peer.address for peer in plan.workers) if workers > 1 else ()
        assert context.addresses == expected


def test_what_is_asked_of_the_training_arrives_unchanged() -> None:
    training = planned(2).spec.training
    read = RunContext.from_env(planned(2).workers[0].env).training
    for name in ("job", "train_data", "sharding", "epochs", "per_replica_batch_size", "learning_rate", "seed"):
        assert getattr(read, name) == getattr(training, name), name


@pytest.mark.parametrize("workers", [2, 5])
def test_tensorflow_reads_the_cluster_as_planned(workers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """kubeflow/trainer#1763: a chief with an empty cluster trains alone, and nobody notices."""
    from tensorflow.python.distribute.cluster_resolver.tfconfig_cluster_resolver import TFConfigClusterResolver

    plan = planned(workers)
    for rank, worker in enumerate(plan.workers):
        monkeypatch.setenv("TF_CONFIG", worker.env["TF_CONFIG"])
        resolver = TFConfigClusterResolver()
        assert resolver.cluster_spec().as_dict() == {"worker": [peer.address for peer in plan.workers]}
        assert (resolver.task_type, resolver.task_id) == ("worker", rank)


def test_one_worker_gets_no_cluster() -> None:
    assert "TF_CONFIG" not in planned(1).workers[0].env


CHIEF_AND_WORKERS = {"chief": {}, "worker": {"replicas": 2}}
OWN = {"command": ["python", "own.py"]}


def planned_roles(roles: dict[str, Any]) -> GangPlan:
    return plan_gang(spec(workers=parse(Roles, roles, what="roles").trainers, roles=roles), GANG, attempt=1)


def test_a_planned_chief_and_its_workers_are_read_as_ranks_of_one_gang() -> None:
    plan = planned_roles(CHIEF_AND_WORKERS)
    for rank, pod in enumerate(plan.workers):
        context = RunContext.from_env(pod.env)
        assert (context.rank, context.workers, context.is_chief) == (rank, 3, rank == 0)
        assert context.addresses == tuple(peer.address for peer in plan.workers)


@pytest.mark.parametrize(
    ("roles", "tasks", "cluster"),
    [
        pytest.param(
            CHIEF_AND_WORKERS,
            ["chief 0", "worker 0", "worker 1"],
            {"chief": [0], "worker": [1, 2]},
            id="with a chief, the workers do not contain it",
        ),
        pytest.param(
            {"worker": {"replicas": 2}, "ps": {"replicas": 2}},
            ["worker 0", "worker 1", "ps 0", "ps 1"],
            {"worker": [0, 1], "ps": [2, 3]},
            id="parameter servers are part of the cluster",
        ),
        pytest.param(
            CHIEF_AND_WORKERS | {"ps": {}, "evaluator": {}},
            ["chief 0", "worker 0", "worker 1", "ps 0", "evaluator 0"],
            {"chief": [0], "worker": [1, 2], "ps": [3]},
            id="an evaluator is not",
        ),
        pytest.param(
            {"chief": {}, "evaluator": {}}, ["", "evaluator 0"], {"chief": [0]}, id="a lone chief has no peers"
        ),
    ],
)
def test_tensorflow_reads_each_role_as_planned(
    roles: dict[str, Any], tasks: list[str], cluster: dict[str, list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    from tensorflow.python.distribute import multi_worker_util
    from tensorflow.python.distribute.cluster_resolver.tfconfig_cluster_resolver import TFConfigClusterResolver

    plan = planned_roles({name: OWN | role for name, role in roles.items()})
    addresses = {role: [plan.workers[rank].address for rank in ranks] for role, ranks in cluster.items()}
    for pod, task in zip(plan.workers, tasks, strict=True):
        assert ("TF_CONFIG" in pod.env) == bool(task)
        if not task:
            continue
        monkeypatch.setenv("TF_CONFIG", pod.env["TF_CONFIG"])
        resolver = TFConfigClusterResolver()
        assert resolver.cluster_spec().as_dict() == addresses
        assert f"{resolver.task_type} {resolver.task_id}" == task
        if resolver.task_type in ("chief", "worker"):
            is_chief = multi_worker_util.is_chief(resolver.cluster_spec(), resolver.task_type, resolver.task_id)
            assert is_chief == (pod.rank == 0)
