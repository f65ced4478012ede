"""What a dead pod died of: the evidence, in the order in which it is to be read."""

from __future__ import annotations

import pytest

from lockstep.failure import failure_of
from lockstep.failure_class import FailureClass
from lockstep.pod_snapshot import PodSnapshot
from tests.unit.builders import failed, pod, running, succeeded


@pytest.mark.parametrize(
    ("dead", "kind", "told"),
    [
        pytest.param(
            failed(0, exit_code=137, reason="OOMKilled", memory_limit="8Gi"),
            FailureClass.RESOURCE,
            "OOMKilled, limit 8Gi",
            id="out of memory names the limit",
        ),
        pytest.param(
            failed(0, exit_code=137, reason="OOMKilled", disruption="EvictionByEvictionAPI"),
            FailureClass.RESOURCE,
            "OOMKilled",
            id="out of memory and disrupted: out of memory first",
        ),
        pytest.param(
            failed(0, exit_code=1, disruption="PreemptionByScheduler"),
            FailureClass.INFRA,
            "PreemptionByScheduler",
            id="a disruption outranks the exit code",
        ),
        pytest.param(
            failed(0, exit_code=None, reason="Evicted", message="The node was\n low on memory.\n"),
            FailureClass.INFRA,
            "Evicted: The node was low on memory.",
            id="evicted: in one line, whatever the message's lines",
        ),
        pytest.param(
            failed(0, exit_code=None, reason="UnexpectedAdmissionError", message="no device"),
            FailureClass.SUSPECT,
            "failed before its container ran: UnexpectedAdmissionError: no device",
            id="no container statuses",
        ),
        pytest.param(failed(0, exit_code=1), FailureClass.USER, "exit code 1", id="the user's code"),
        pytest.param(failed(0, exit_code=64), FailureClass.CONFIG, "exit code 64", id="the request is wrong"),
        pytest.param(failed(0, exit_code=65), FailureClass.USER, "exit code 65", id="the data is wrong"),
        pytest.param(failed(0, exit_code=69), FailureClass.COLLATERAL, "exit code 69", id="a peer was lost"),
        pytest.param(failed(0, exit_code=75), FailureClass.STALL, "exit code 75", id="stalled"),
        pytest.param(failed(0, exit_code=143), FailureClass.INFRA, "exit code 143", id="stopped, state saved"),
        pytest.param(failed(0, exit_code=42), FailureClass.INFRA, "exit code 42", id="TensorFlow's preemption handler"),
        pytest.param(
            failed(0, exit_code=137), FailureClass.SUSPECT, "killed (SIGKILL)", id="killed, memory not to blame"
        ),
        pytest.param(
            failed(0, exit_code=137, deletion_due=1_030.0),
            FailureClass.INFRA,
            "its pod was deleted from outside, and killed (exit code 137)",
            id="killed at the end of its grace: whoever deleted it",
        ),
        pytest.param(
            failed(0, exit_code=137, message="step 12 of 40\n"),
            FailureClass.SUSPECT,
            "exit code 137: killed (SIGKILL)",
            id="killed: the end of its log is no reason",
        ),
        pytest.param(
            pod(0, waiting_reason="ImagePullBackOff", waiting_message="no such image"),
            FailureClass.CONFIG,
            "its image cannot be pulled: ImagePullBackOff: no such image",
            id="an image that does not exist",
        ),
        pytest.param(
            pod(0, waiting_reason="ErrImagePull", waiting_message="dial tcp: connection refused"),
            FailureClass.SUSPECT,
            "its image cannot be pulled: ErrImagePull: dial tcp: connection refused",
            id="a registry that does not answer",
        ),
        pytest.param(
            pod(
                0,
                waiting_reason="ErrImagePull",
                waiting_message='failed to pull image "reg.example/never-late/denied:1": '
                "dial tcp: lookup reg.example: no such host",
            ),
            FailureClass.SUSPECT,
            'its image cannot be pulled: ErrImagePull: failed to pull image "reg.example/never-late/denied:1": '
            "dial tcp: lookup reg.example: no such host",
            id="a registry whose name is not known now, and an image of an unlucky name",
        ),
        pytest.param(
            pod(0, waiting_reason="InvalidImageName"),
            FailureClass.CONFIG,
            "its image cannot be pulled: InvalidImageName",
            id="a name that no image can have",
        ),
        pytest.param(
            failed(0, exit_code=2, message="Traceback\nKeyError: 'x'\n"),
            FailureClass.USER,
            "exit code 2: KeyError: 'x'",
            id="a foreign image: the last line it said",
        ),
    ],
)
def test_failure_of(dead: PodSnapshot, kind: FailureClass, told: str) -> None:
    failure = failure_of(dead)
    assert failure is not None
    assert failure.kind is kind
    assert told in str(failure)


@pytest.mark.parametrize(
    "alive",
    [
        pytest.param(running(0), id="running"),
        pytest.param(succeeded(0), id="succeeded"),
        pytest.param(pod(0), id="pending"),
        pytest.param(pod(0, unscheduled="0/1 nodes are available"), id="not scheduled yet"),
    ],
)
def test_the_living_have_not_failed(alive: PodSnapshot) -> None:
    assert failure_of(alive) is None
