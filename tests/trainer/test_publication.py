"""A published directory counts when its manifest is there, and is what its manifest says."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from trainer import storage
from trainer.manifest import Provenance
from trainer.publication import Damaged, check_sizes, fetch, is_whole, publish

PROVENANCE = Provenance(kind="model", step=420, workers=2, attempt=1)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A directory to publish: files of different sizes, one of them nested."""
    directory = tmp_path / "source"
    (directory / "variables").mkdir(parents=True)
    (directory / "saved_model.pb").write_bytes(b"123456789")
    (directory / "variables" / "data").write_bytes(bytes(1000))
    (directory / "empty").touch()
    return directory


@pytest.fixture
def published(source: Path, tmp_path: Path) -> Path:
    publish(source, str(tmp_path / "published"), PROVENANCE)
    return tmp_path / "published"


def test_the_manifest_lists_every_file_as_cloud_storage_would(published: Path) -> None:
    """The CRC32C of `123456789` is 0xE3069283 (RFC 3720); Cloud Storage reports it big-endian, in base64."""
    manifest = json.loads((published / "manifest.json").read_bytes())
    assert {key: manifest[key] for key in ("schema", "kind", "step", "workers", "attempt")} == {
        "schema": 1,
        "kind": "model",
        "step": 420,
        "workers": 2,
        "attempt": 1,
    }
    assert [entry["path"] for entry in manifest["files"]] == ["empty", "saved_model.pb", "variables/data"]
    checksum = base64.b64encode((0xE3069283).to_bytes(4, "big")).decode()
    assert manifest["files"][1] == {"path": "saved_model.pb", "size_bytes": 9, "crc32c": checksum}


def test_what_was_published_can_be_fetched(published: Path, source: Path, tmp_path: Path) -> None:
    manifest = fetch(str(published), tmp_path / "fetched")
    assert manifest.provenance == PROVENANCE
    for path in ("saved_model.pb", "variables/data", "empty"):
        assert (tmp_path / "fetched" / path).read_bytes() == (source / path).read_bytes()


def test_publishing_again_gives_the_same_bytes_and_leaves_nothing_else(source: Path, published: Path) -> None:
    before = (published / "manifest.json").read_bytes()
    (published / "left-over").write_bytes(b"of an interrupted upload")
    publish(source, str(published), PROVENANCE)
    assert (published / "manifest.json").read_bytes() == before
    assert not (published / "left-over").exists()


def _truncate(directory: Path) -> None:
    (directory / "saved_model.pb").write_bytes(b"1234")


def _delete(directory: Path) -> None:
    (directory / "variables" / "data").unlink()


def _no_manifest(directory: Path) -> None:
    (directory / "manifest.json").unlink()


def _half_a_manifest(directory: Path) -> None:
    content = (directory / "manifest.json").read_bytes()
    (directory / "manifest.json").write_bytes(content[: len(content) // 2])


@pytest.mark.parametrize("damage", [_truncate, _delete, _no_manifest, _half_a_manifest])
def test_damage_is_seen_at_a_glance(published: Path, damage: object, tmp_path: Path) -> None:
    assert is_whole(str(published))
    assert callable(damage)
    damage(published)
    with pytest.raises(Damaged):
        check_sizes(str(published))
    with pytest.raises(Damaged):
        fetch(str(published), tmp_path / "fetched")


def test_a_flipped_bit_is_seen_when_fetched(published: Path, tmp_path: Path) -> None:
    (published / "saved_model.pb").write_bytes(b"123456788")
    with pytest.raises(Damaged, match=r"saved_model\.pb has 9 bytes and crc32c"):
        fetch(str(published), tmp_path / "fetched")


def test_what_is_not_there_reads_as_nothing(tmp_path: Path) -> None:
    nowhere = str(tmp_path / "no" / "where")
    assert storage.read_bytes(nowhere) is None
    assert storage.read_json(nowhere) is None
    assert storage.size_bytes(nowhere) is None
    assert storage.names_in(nowhere) == ()
    storage.remove(nowhere)
    storage.remove_tree(nowhere)
