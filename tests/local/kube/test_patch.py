"""The patch formats, where they differ: lists, deletions, directives."""

from __future__ import annotations

from typing import Any

import pytest

from lockstep.local.kube.patch import JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, apply_patch
from lockstep.local.kube.status_error import StatusError

POD: Any = {
    "metadata": {"labels": {"a": "1"}, "finalizers": ["x"]},
    "spec": {"containers": [{"name": "one", "image": "i", "env": [{"name": "A", "value": "1"}]}, {"name": "two"}]},
}


@pytest.mark.parametrize(
    ("media_type", "patch", "path", "expected"),
    [
        pytest.param(
            MERGE_PATCH, {"metadata": {"labels": {"a": None, "b": "2"}}}, "labels", {"b": "2"}, id="merge: null"
        ),
        pytest.param(
            MERGE_PATCH, {"metadata": {"finalizers": ["y"]}}, "finalizers", ["y"], id="merge: a list replaces"
        ),
        pytest.param(
            STRATEGIC_PATCH, {"metadata": {"finalizers": ["y"]}}, "finalizers", ["x", "y"], id="strategic: a set grows"
        ),
        pytest.param(
            STRATEGIC_PATCH,
            {"metadata": {"$deleteFromPrimitiveList/finalizers": ["x"]}},
            "finalizers",
            [],
            id="strategic: an entry is deleted",
        ),
        pytest.param(
            STRATEGIC_PATCH,
            {"metadata": {"labels": {"$patch": "replace", "b": "2"}}},
            "labels",
            {"b": "2"},
            id="strategic: an object is replaced",
        ),
        pytest.param(
            JSON_PATCH,
            [{"op": "add", "path": "/metadata/labels/b", "value": "2"}],
            "labels",
            {"a": "1", "b": "2"},
            id="JSON",
        ),
    ],
)
def test_metadata_is_patched(media_type: str, patch: Any, path: str, expected: Any) -> None:
    before = repr(POD)

    assert apply_patch(POD, patch, media_type)["metadata"][path] == expected
    assert repr(POD) == before, "what is stored is never changed in place"


def test_a_strategic_patch_merges_lists_by_their_key() -> None:
    patch = {
        "spec": {
            "$setElementOrder/containers": [{"name": "one"}],
            "containers": [{"name": "two", "$patch": "delete"}, {"name": "one", "env": [{"name": "B", "value": "2"}]}],
        }
    }

    patched = apply_patch(POD, patch, STRATEGIC_PATCH)["spec"]["containers"]

    env = [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]
    assert patched == [{"name": "one", "image": "i", "env": env}]


@pytest.mark.parametrize(
    ("media_type", "patch", "code"),
    [
        pytest.param("application/apply-patch+yaml", {}, 415, id="server-side apply is not served"),
        pytest.param(MERGE_PATCH, [], 400, id="a list is no merge patch"),
        pytest.param(JSON_PATCH, [{"op": "jump", "path": "/a"}], 400, id="an operation that there is not"),
        pytest.param(JSON_PATCH, [{"op": "remove", "path": "/absent/x"}], 422, id="a path that there is not"),
        pytest.param(JSON_PATCH, [{"op": "test", "path": "/metadata/labels/a", "value": "2"}], 422, id="a failed test"),
    ],
)
def test_a_patch_that_does_not_work_is_refused(media_type: str, patch: Any, code: int) -> None:
    with pytest.raises(StatusError) as caught:
        apply_patch(POD, patch, media_type)

    assert caught.value.code == code
