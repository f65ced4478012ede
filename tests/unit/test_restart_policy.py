"""When a gang is started anew: two budgets, pauses that grow, and nothing for what cannot get better."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstep.errors import InvalidSpec
from lockstep.failure_class import FailureClass
from lockstep.parsing import parse
from lockstep.restart_policy import RestartPolicy, Restarts, backoff_s, next_restart


@pytest.mark.parametrize(
    ("policy", "so_far", "kind", "expected"),
    [
        pytest.param({}, {}, "infra", Restarts(infra=1), id="a lost node is worth a restart"),
        pytest.param({}, {}, "stall", Restarts(infra=1), id="so is a stall"),
        pytest.param({}, {}, "collateral", Restarts(infra=1), id="and a lost peer without a culprit"),
        pytest.param({}, {"infra": 3}, "infra", None, id="until the budget is spent"),
        pytest.param({"max_infra_restarts": 0}, {}, "infra", None, id="where there is any budget"),
        pytest.param({}, {}, "user", None, id="a bug does not get better"),
        pytest.param({"max_user_restarts": 1}, {}, "user", Restarts(user=1), id="unless its user thinks so"),
        pytest.param({"max_user_restarts": 1}, {"user": 1}, "user", None, id="as often as the user thinks so"),
        pytest.param({"max_user_restarts": 1}, {"infra": 3}, "user", Restarts(infra=3, user=1), id="of two budgets"),
        pytest.param({}, {"infra": 1}, "suspect", Restarts(infra=2, suspect=1), id="killed, nobody knows why: once"),
        pytest.param({}, {"infra": 1, "suspect": 1}, "suspect", None, id="and not a second time"),
        pytest.param({"max_user_restarts": 9}, {}, "config", None, id="a wrong request never"),
        pytest.param({"max_user_restarts": 9}, {}, "resource", None, id="too little memory never"),
    ],
)
def test_next_restart(policy: dict[str, Any], so_far: dict[str, int], kind: str, expected: Restarts | None) -> None:
    assert next_restart(RestartPolicy(**policy), Restarts(**so_far), FailureClass(kind)) == expected


def test_an_end_without_a_class_is_final() -> None:
    """A task that Airflow told to stop, or whose time is up."""
    assert next_restart(RestartPolicy(max_user_restarts=9), Restarts(), None) is None


def test_pauses_double_up_to_their_limit() -> None:
    policy = RestartPolicy(backoff_s=10, max_backoff_s=60)
    assert [backoff_s(policy, Restarts(infra=count)) for count in (1, 2, 3, 4, 5)] == [10, 20, 40, 60, 60]


def test_however_many_restarts_there_were_a_pause_has_its_limit() -> None:
    assert backoff_s(RestartPolicy(max_backoff_s=60), Restarts(infra=2_000)) == 60


@given(kinds=st.lists(st.sampled_from(FailureClass), max_size=30), infra=st.integers(0, 4), user=st.integers(0, 4))
def test_no_sequence_of_failures_is_restarted_for_ever(kinds: list[FailureClass], infra: int, user: int) -> None:
    policy, so_far = RestartPolicy(max_infra_restarts=infra, max_user_restarts=user), Restarts()
    granted = 0
    for kind in kinds:
        if (more := next_restart(policy, so_far, kind)) is not None:
            so_far, granted = more, granted + 1
    assert so_far.total == granted <= infra + user


def test_a_key_that_is_misspelt_is_named_with_the_nearest() -> None:
    with pytest.raises(InvalidSpec, match=r"restarts: unknown parameter 'max_infra_restart' .*'max_infra_restarts'"):
        parse(RestartPolicy, {"max_infra_restart": 1}, what="restarts")
