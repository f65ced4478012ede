"""The environment is the only thing a worker is told, so it is checked to the letter."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from tests.trainer.requests import VALID
from trainer.errors import InvalidRequest
from trainer.run_context import RunContext, proxy_exceptions, termination_log


def environment(rank: int = 1, workers: int = 2, **changes: str | None) -> dict[str, str]:
    """A valid environment with `changes`; None removes a variable."""
    environ: dict[str, str | None] = {
        "LOCKSTEP_CONTRACT": "1",
        "LOCKSTEP_RUN_DIRECTORY": "gs://bucket/run/",
        "LOCKSTEP_ATTEMPT": "3",
        "LOCKSTEP_RANK": str(rank),
        "LOCKSTEP_WORKERS": str(workers),
        "LOCKSTEP_TRAINING": json.dumps({**VALID, "per_replica_batch_size": 32}),
        "TF_CONFIG": tf_config([f"host-{i}:2222" for i in range(workers)], rank) if workers > 1 else None,
        **changes,
    }
    return {name: value for name, value in environ.items() if value is not None}


def tf_config(addresses: Sequence[str], index: int, **more_jobs: list[str]) -> str:
    cluster = {"worker": list(addresses), **more_jobs}
    return json.dumps({"cluster": cluster, "task": {"type": "worker", "index": index}})


def test_a_worker_of_two_knows_its_place() -> None:
    context = RunContext.from_env(environment())
    assert (context.rank, context.workers, context.attempt) == (1, 2, 3)
    assert context.addresses == ("host-0:2222", "host-1:2222")
    assert context.run_directory == "gs://bucket/run"
    assert not context.is_chief


def test_a_chief_of_its_own_has_rank_0_and_the_workers_count_on_from_there() -> None:
    cluster = {"worker": ["host-1:2222", "host-2:2222"], "chief": ["host-0:2222"]}
    tasks = [{"type": "chief", "index": 0}, {"type": "worker", "index": 0}, {"type": "worker", "index": 1}]
    for rank, task in enumerate(tasks):
        config = json.dumps({"cluster": cluster, "task": task})
        context = RunContext.from_env(environment(rank, 3, TF_CONFIG=config))
        assert (context.rank, context.is_chief) == (rank, rank == 0)
        assert context.addresses == ("host-0:2222", "host-1:2222", "host-2:2222")


def test_a_worker_alone_is_the_chief_and_needs_no_cluster() -> None:
    context = RunContext.from_env(environment(rank=0, workers=1))
    assert context.is_chief
    assert context.addresses == ()


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        pytest.param({"LOCKSTEP_CONTRACT": "2"}, "speaks contract 1", id="a newer contract"),
        pytest.param({"LOCKSTEP_CONTRACT": None}, "LOCKSTEP_CONTRACT is missing", id="no contract"),
        pytest.param({"LOCKSTEP_RUN_DIRECTORY": ""}, "LOCKSTEP_RUN_DIRECTORY is missing", id="no run directory"),
        pytest.param({"LOCKSTEP_RANK": "2"}, "below LOCKSTEP_WORKERS=2", id="a rank beyond the gang"),
        pytest.param({"LOCKSTEP_RANK": "first"}, "whole number", id="a rank in words"),
        pytest.param({"LOCKSTEP_WORKERS": "0"}, "at least 1", id="no workers"),
        pytest.param({"LOCKSTEP_ATTEMPT": "0"}, "at least 1", id="no attempt"),
        pytest.param({"LOCKSTEP_STALL_TIMEOUT_S": "-1"}, "greater than 0", id="a negative timeout"),
        pytest.param({"LOCKSTEP_RENDEZVOUS_TIMEOUT_S": "soon"}, "number of seconds", id="a timeout in words"),
        pytest.param({"LOCKSTEP_TRAINING": None}, "LOCKSTEP_TRAINING is missing", id="nothing to train"),
        pytest.param({"TF_CONFIG": None}, "TF_CONFIG is missing", id="a gang without a cluster"),
        pytest.param({"TF_CONFIG": "{}"}, "no cluster", id="an empty cluster"),
        pytest.param({"TF_CONFIG": tf_config(["a:1"], 1)}, "names 1 workers", id="a cluster of another size"),
        pytest.param({"TF_CONFIG": tf_config(["a:1", "b:1"], 0)}, "LOCKSTEP_RANK is 1", id="another one's task"),
        pytest.param({"TF_CONFIG": tf_config(["a:1", "b"], 1)}, "'b', which is not host:port", id="no port"),
        pytest.param(
            {"TF_CONFIG": tf_config(["a:1", "b:1"], 1, ps=["c:1"])},
            "has ps; this trainer knows a chief and workers",
            id="parameter servers",
        ),
        pytest.param({"TF_CONFIG": tf_config([], 1, chief=["a:1", "b:1"])}, "2 chiefs", id="two chiefs"),
        pytest.param(
            {"TF_CONFIG": tf_config(["b:1"], 1, chief=["a:1"])},
            r"LOCKSTEP_RANK is 1, which is \{'type': 'worker', 'index': 0\}",
            id="a worker that counts the chief among the workers",
        ),
        pytest.param({"LOCKSTEP_WORKERS": "1", "LOCKSTEP_RANK": "0"}, "remove it", id="a cluster of one"),
    ],
)
def test_a_wrong_environment_is_refused(changes: dict[str, str | None], complaint: str) -> None:
    with pytest.raises(InvalidRequest, match=complaint):
        RunContext.from_env(environment(**changes))


def test_the_termination_message_has_a_place_even_when_all_else_is_wrong() -> None:
    assert termination_log({}) == "/dev/termination-log"
    assert termination_log({"LOCKSTEP_TERMINATION_LOG": "/tmp/x"}) == "/tmp/x"


def test_a_proxy_is_kept_out_of_the_talk_between_workers() -> None:
    """A configured https_proxy would make TensorFlow's start hang."""
    assert proxy_exceptions({"no_proxy": "localhost"}, ("w0.gang:2222", "w1.gang:2222")) == "localhost,w0.gang,w1.gang"
