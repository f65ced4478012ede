"""Label and field selectors mean what they mean to Kubernetes."""

from __future__ import annotations

from typing import Any

import pytest

from lockstep.local.kube.resource import EVENTS, PODS
from lockstep.local.kube.selector import field_selector, label_selector
from lockstep.local.kube.status_error import StatusError


def labelled(**labels: str) -> Any:
    return {"metadata": {"name": "x", "labels": labels}}


@pytest.mark.parametrize(
    ("selector", "labels", "selected"),
    [
        pytest.param("", {}, True, id="nothing asked: everything"),
        pytest.param("a=1", {"a": "1"}, True, id="equal"),
        pytest.param("a==1", {"a": "2"}, False, id="not equal"),
        pytest.param("a=", {"a": ""}, True, id="an empty value"),
        pytest.param("a=", {}, False, id="an empty value is not absence"),
        pytest.param("a!=1", {}, True, id="what is absent differs from every value"),
        pytest.param("a in (1, 2)", {"a": "2"}, True, id="in a set"),
        pytest.param("a notin (1,2)", {}, True, id="absent is outside every set"),
        pytest.param("a notin (1,2)", {"a": "1"}, False, id="inside is not outside"),
        pytest.param("a", {"a": "x"}, True, id="there"),
        pytest.param("!a", {"a": "x"}, False, id="not absent"),
        pytest.param("lockstep/rank=0,!b,c in (x)", {"lockstep/rank": "0", "c": "x"}, True, id="all terms hold"),
        pytest.param("already_checked!=True,a=1", {"a": "1"}, True, id="as KubernetesPodOperator asks"),
    ],
)
def test_a_label_selector_selects(selector: str, labels: dict[str, str], selected: bool) -> None:
    assert label_selector(selector)(labelled(**labels)) is selected


@pytest.mark.parametrize("selector", ["a in b", "a=b=c", "a in (b", "-a", "a,,b", "a > 1"])
def test_a_label_selector_that_cannot_be_read_is_refused(selector: str) -> None:
    with pytest.raises(StatusError, match="unable to parse requirement") as caught:
        label_selector(selector)

    assert caught.value.code == 400


def test_a_field_that_is_absent_equals_the_empty_text() -> None:
    pod = {"metadata": {"name": "x"}, "spec": {}}

    assert field_selector("spec.nodeName=", PODS)(pod)
    assert field_selector("metadata.name=x,spec.nodeName!=y", PODS)(pod)


def test_events_are_selected_by_what_they_are_about() -> None:
    event = {"metadata": {"name": "e"}, "involvedObject": {"name": "x", "uid": "1"}, "source": {"component": "kubelet"}}

    assert field_selector("involvedObject.name=x,involvedObject.uid=1,source=kubelet", EVENTS)(event)
    assert not field_selector("involvedObject.name=y", EVENTS)(event)
