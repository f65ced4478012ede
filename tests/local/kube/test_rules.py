"""The pure parts: expansion, decoding, scheduling, collecting, and how durations are written."""

from __future__ import annotations

from typing import Any

import pytest

from lockstep.local.kube.container_spec import CannotCreate, container_spec, expand
from lockstep.local.kube.garbage_collector import Delete, Release, leftovers
from lockstep.local.kube.image import Image, InvalidImages, read_images
from lockstep.local.kube.pod_rules import with_pod_defaults
from lockstep.local.kube.resource import NAMESPACES, PODS, SERVICES
from lockstep.local.kube.scheduler import Fits, Gated, Unschedulable, verdict
from lockstep.local.kube.schema import decode
from lockstep.local.kube.status_error import StatusError
from lockstep.local.kube.table import human_duration

NODE: Any = {
    "metadata": {"labels": {"kubernetes.io/os": "linux"}},
    "status": {"allocatable": {"cpu": "2", "memory": "1Gi", "pods": "2"}},
}


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        pytest.param("$(A)", "1", id="a known name"),
        pytest.param("x$(A)y$(B)z", "x1y$(B)z", id="an unknown one stays"),
        pytest.param("$$(A)", "$(A)", id="a doubled dollar is one"),
        pytest.param("$$$(A)", "$1", id="a doubled dollar, then a name"),
        pytest.param("$A ${A} $( A", "$A ${A} $( A", id="other spellings are plain text"),
    ],
)
def test_references_are_expanded(text: str, expanded: str) -> None:
    assert expand(text, {"A": "1"}) == expanded


def test_the_entrypoint_of_the_image_is_the_command_of_a_container_without_one() -> None:
    image = Image(name="i", path=("/venv/bin",), working_directory="/w", entrypoint=("python", "-m", "trainer"))
    spec = container_spec(pod(container={"args": ["--help"]}), image, {"HOME": "/h"})

    assert spec.arguments == ("python", "-m", "trainer", "--help")
    assert spec.env["PATH"] == "/venv/bin:/usr/bin:/bin"
    assert spec.working_directory == "/w"


def test_a_container_without_any_command_cannot_be_created() -> None:
    with pytest.raises(CannotCreate, match="no command specified"):
        container_spec(pod(), Image(name="i", path=(), working_directory="/"), {})


def pod(name: str = "x", *, container: Any = None, **spec: Any) -> Any:
    base = {"name": "base", "image": "i"} | (container or {})
    metadata = {"name": name, "namespace": "default", "uid": name}
    given = {"metadata": metadata, "spec": {"restartPolicy": "Never", "containers": [base]} | spec}
    return with_pod_defaults(given)


def asking(name: str = "x", **requests: str) -> Any:
    return pod(name, container={"resources": {"requests": requests}})


@pytest.mark.parametrize(
    ("new", "bound", "expected"),
    [
        pytest.param(pod(), [], Fits(), id="asks for nothing"),
        pytest.param(asking(cpu="2", memory="1Gi"), [], Fits(), id="asks for all there is"),
        pytest.param(asking(cpu="1"), [asking("y", cpu="1500m")], "1 Insufficient cpu.", id="what is taken is taken"),
        pytest.param(
            asking(**{"nvidia.com/gpu": "1"}), [], "Insufficient nvidia.com/gpu", id="a GPU that is not there"
        ),
        pytest.param(pod(), [pod("y"), pod("z")], "Too many pods", id="too many"),
        pytest.param(pod(nodeSelector={"a": "b"}), [], "didn't match Pod's node affinity/selector", id="another node"),
        pytest.param(pod(schedulingGates=[{"name": "g"}]), [], Gated(), id="held by a gate"),
    ],
)
def test_a_pod_is_scheduled_where_it_fits(new: Any, bound: Any, expected: Any) -> None:
    found = verdict(new, NODE, bound)

    if isinstance(expected, str):
        assert isinstance(found, Unschedulable)
        assert expected in found.message
    else:
        assert found == expected


def test_a_pod_that_has_ended_takes_no_room() -> None:
    ended = asking("y", cpu="2") | {"status": {"phase": "Succeeded"}}

    assert verdict(asking(cpu="2"), NODE, [ended]) == Fits()


def test_a_limit_is_a_request_too() -> None:
    made = pod(container={"resources": {"limits": {"cpu": "2"}}})

    assert made["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "2"}


def owned(name: str, *owners: str, kind: str = "Service") -> Any:
    references = [{"kind": kind, "name": each, "uid": each} for each in owners]
    return {"metadata": {"name": name, "namespace": "default", "uid": name, "ownerReferences": references}}


def ending(item: Any, *finalizers: str) -> Any:
    metadata = item["metadata"] | {"deletionTimestamp": "now", "finalizers": list(finalizers)}
    return item | {"metadata": metadata, "spec": {"finalizers": ["kubernetes"]}}


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        pytest.param([(PODS, owned("p"))], [], id="no owner: stays"),
        pytest.param([(SERVICES, owned("s")), (PODS, owned("p", "s"))], [], id="its owner lives: stays"),
        pytest.param([(PODS, owned("p", "s"))], [("delete", "p")], id="its owner is gone: goes"),
        pytest.param([(SERVICES, owned("s")), (PODS, owned("p", "s", "t"))], [], id="one of two owners lives: stays"),
        pytest.param([(PODS, owned("p", "j", kind="Job"))], [], id="an owner of a kind unknown here: stays"),
        pytest.param([(PODS, ending(owned("p", "s")))], [], id="it is going already: left alone"),
        pytest.param(
            [(SERVICES, ending(owned("s"), "foregroundDeletion")), (PODS, owned("p", "s"))],
            [("delete", "p")],
            id="its owner waits for it to go: goes",
        ),
        pytest.param(
            [(SERVICES, ending(owned("s"), "foregroundDeletion"))], [("release", "s")], id="nothing to wait for: goes"
        ),
    ],
)
def test_what_lost_its_owners_is_collected(stored: Any, expected: Any) -> None:
    assert [described(each) for each in leftovers(stored)] == expected


def test_a_namespace_goes_after_its_contents() -> None:
    namespace = ending({"metadata": {"name": "default", "uid": "n"}})
    contents = (PODS, owned("p"))

    assert [described(each) for each in leftovers([(NAMESPACES, namespace), contents])] == [("delete", "p")]
    assert [described(each) for each in leftovers([(NAMESPACES, namespace)])] == [("release", "default")]


def described(action: Delete | Release) -> tuple[str, str]:
    return type(action).__name__.lower(), action.item["metadata"]["name"]


def test_nulls_are_dropped_and_unknown_fields_told() -> None:
    body = {"metadata": {"name": "x", "labels": None}, "spec": {"colour": 1, "containers": [{"nome": "y"}]}}

    decoded, unknown = decode(PODS, body)

    assert decoded["metadata"] == {"name": "x"}
    assert unknown == ["spec.colour", "spec.containers[0].nome"]


def test_a_quantity_may_be_a_number() -> None:
    body = {"spec": {"containers": [{"resources": {"limits": {"cpu": 2}}}]}}

    assert decode(PODS, body)[0]["spec"]["containers"][0]["resources"]["limits"] == {"cpu": "2"}


def test_another_kind_is_refused() -> None:
    with pytest.raises(StatusError, match="does not match the expected API version"):
        decode(PODS, {"kind": "Job", "apiVersion": "batch/v1"})


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (250, "4m10s"),
        (660, "11m"),
        (10_800, "3h"),
        (11_220, "3h7m"),
        (30_000, "8h"),
        (180_000, "2d2h"),
        (864_000, "10d"),
    ],
)
def test_a_duration_is_as_precise_as_a_reader_wants(seconds: int, text: str) -> None:
    assert human_duration(seconds) == text


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        pytest.param("{", "images.json", id="no JSON"),
        pytest.param('{"image": {}}', "images", id="no images"),
        pytest.param('{"images": {"a": {"path": [], "workdir": "/"}}}', "working_directory", id="an unknown key"),
        pytest.param('{"images": {"a": {"path": []}}}', "working_directory is missing", id="no working directory"),
    ],
)
def test_images_that_cannot_be_read_are_refused_by_name(tmp_path: Any, content: str, complaint: str) -> None:
    file = tmp_path / "images.json"
    file.write_text(content)

    with pytest.raises(InvalidImages, match=complaint):
        read_images(file)
