"""Addresses in Cloud Storage are checked where they enter."""

from __future__ import annotations

import pytest

from lockstep.errors import InvalidSpec
from lockstep.gs_url import GsUrl


@pytest.mark.parametrize(
    ("text", "bucket", "name"),
    [
        pytest.param("gs://b-1/a/b", "b-1", "a/b", id="a folder"),
        pytest.param("gs://b-1/a/b/", "b-1", "a/b", id="a folder with a slash at its end"),
        pytest.param("gs://b-1", "b-1", "", id="the bucket itself"),
        pytest.param("gs://b.example.org/x-*.tfrecord", "b.example.org", "x-*.tfrecord", id="a glob"),
        pytest.param(
            "gs://b-1/manual__2025-12-01T00:00:00+00:00", "b-1", "manual__2025-12-01T00:00:00+00:00", id="a run id"
        ),
    ],
)
def test_an_address_is_read(text: str, bucket: str, name: str) -> None:
    """The bucket and the name come out, and written again they are the address."""
    url = GsUrl.parse(text)
    assert (url.bucket, url.name) == (bucket, name)
    assert str(url) == text.rstrip("/")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        pytest.param("s3://b/x", "not in Cloud Storage", id="another store"),
        pytest.param("/tmp/x", "not in Cloud Storage", id="a local path"),
        pytest.param(None, "not in Cloud Storage", id="nothing"),
        pytest.param("gs://", "names no bucket", id="no bucket"),
        pytest.param("gs:///x", "names no bucket", id="no bucket, but a name"),
        pytest.param("gs://Bucket/x", "bucket name 'Bucket'", id="a bucket in capitals"),
        pytest.param("gs://b-1/a//b", "empty part", id="an empty folder name"),
        pytest.param("gs://b-1/a/../b", "'..'", id="a way out of the folder"),
        pytest.param("gs://b-1/a\nb", "control character", id="a line break"),
        pytest.param("gs://b-1/" + "ä" * 600, "1024 bytes", id="too long in UTF-8"),
    ],
)
def test_what_is_no_address_is_refused(text: str, complaint: str) -> None:
    """The error says whose address, shows it, and says how to write one."""
    with pytest.raises(InvalidSpec, match="run_root") as refused:
        GsUrl.parse(text, what="run_root")
    assert complaint in str(refused.value)
    assert "gs://bucket/folder" in str(refused.value)


@pytest.mark.parametrize(
    ("name", "prefix"),
    [("data/train-*.tfrecord", "data/train-"), ("data/train-?[ab]", "data/train-"), ("data/x", "data/x"), ("*", "")],
)
def test_a_listing_begins_with_what_no_wildcard_touches(name: str, prefix: str) -> None:
    """Only the part before the first wildcard can be asked of a listing."""
    assert GsUrl(bucket="b-1", name=name).fixed_prefix == prefix
