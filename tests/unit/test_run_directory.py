"""The run directory and the door to Cloud Storage, against the real emulator and against servers that refuse."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import replace

import pytest

from lockstep import cloud_storage
from lockstep.attempt_record import AttemptRecord
from lockstep.cloud_storage import CloudStorage
from lockstep.errors import CheckpointRejected, InvalidSpec, LockstepError, NotPermitted, StorageUnavailable
from lockstep.gs_url import GsUrl
from lockstep.names import GangId
from lockstep.run_directory import RunDirectory, run_url
from tests.http_server import answering

SPEC = {"image": "i:1", "workers": 2, "training": {"epochs": 5, "job_params": {"units": [1, 2]}}}


@pytest.fixture
def run(bucket: str) -> RunDirectory:
    return RunDirectory.at(f"{bucket}/runs/dag/run")


def put(run: RunDirectory, path: str, content: bytes) -> None:
    run.storage._blob(run.url / path).upload_from_string(content)


def test_a_run_is_claimed_once_and_asking_the_same_again_is_fine(run: RunDirectory) -> None:
    """A retried or cleared task asks the same; tuples and lists are the same in JSON."""
    run.claim(SPEC)
    run.claim({**SPEC, "training": {"job_params": {"units": (1, 2)}, "epochs": 5}})
    assert run.read_json("spec.json") == SPEC


def test_another_request_in_the_same_directory_is_refused(run: RunDirectory) -> None:
    """The keys that differ are named, at any depth; their values, which may be secret, are not."""
    run.claim(SPEC)
    with pytest.raises(InvalidSpec, match=r"changed: env, training\.epochs\).*start a new DAG run") as refused:
        run.claim(SPEC | {"training": {"epochs": 6, "job_params": {"units": [1, 2]}}, "env": {"TOKEN": "hush"}})
    assert "hush" not in str(refused.value)
    assert run.read_json("spec.json") == SPEC


def test_of_many_claims_at_once_exactly_one_wins(run: RunDirectory) -> None:
    """Two schedulers' tasks may ask at the same moment; storage decides."""
    outcomes: list[str] = []

    def claim(epochs: int) -> None:
        try:
            RunDirectory(url=run.url).claim({"epochs": epochs})
            outcomes.append("won")
        except InvalidSpec:
            outcomes.append("refused")

    threads = [threading.Thread(target=claim, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["refused"] * 7 + ["won"]


def test_a_directory_is_listed_with_what_storage_knows_of_each_file(run: RunDirectory) -> None:
    """Sizes and checksums come from storage, the manifest apart, folder placeholders left out."""
    for path, content in [("model/a", b"abc"), ("model/v/b", b""), ("model/v/", b""), ("model/manifest.json", b"{}")]:
        put(run, path, content)
    stored = run.stored_directory("model")
    assert stored.manifest == b"{}"
    assert [(item.path, item.size_bytes, item.crc32c) for item in stored.objects] == [
        ("a", 3, "Nks/tw=="),
        ("v/b", 0, "AAAAAA=="),
    ]
    assert run.stored_directory("mod").objects == ()


def test_a_directory_without_manifest_does_not_count(run: RunDirectory) -> None:
    """Its files are there, but nobody said they are all."""
    put(run, "model/a", b"abc")
    assert run.stored_directory("model").manifest is None
    assert run.digest("model") is None


class Rotating(CloudStorage):
    """Storage in which somebody rewrites the manifest just after each of the first listings."""

    def __init__(self, rotations: int) -> None:
        super().__init__()
        self.rotations = rotations

    def contents(self, folder: GsUrl) -> tuple[object, ...]:  # type: ignore[override]
        listed = super().contents(folder)
        if self.rotations > 0:
            self.rotations -= 1
            self._blob(folder / "manifest.json").upload_from_string(f"rewritten, {self.rotations} to come")
        return listed


def test_a_reader_who_meets_a_rotation_sees_one_moment(run: RunDirectory) -> None:
    """The manifest is read in the generation that was listed, or all is looked at again."""
    put(run, "model/manifest.json", b"old")
    assert RunDirectory(url=run.url, storage=Rotating(1)).stored_directory("model").manifest == b"rewritten, 0 to come"


def test_a_directory_that_never_rests_is_a_retryable_error(run: RunDirectory) -> None:
    """Bounded: three looks, then the task may be tried again."""
    put(run, "model/manifest.json", b"old")
    with pytest.raises(StorageUnavailable, match="was rewritten 3 times"):
        RunDirectory(url=run.url, storage=Rotating(100)).stored_directory("model")


def test_a_result_is_read_or_explained(run: RunDirectory) -> None:
    """No result, a torn one: each says what to do."""
    with pytest.raises(CheckpointRejected, match="training has not ended"):
        run.result()
    put(run, "result.json", b'{"schema": 1,')
    with pytest.raises(CheckpointRejected, match="no JSON"):
        run.result()


def test_data_files_are_found_as_a_glob_says(bucket: str) -> None:
    """A star ends at a slash, and brackets are understood."""
    storage = CloudStorage()
    for name in ["d/train-0", "d/train-1", "d/train-10", "d/eval-0", "d/train-x/y", "train-0"]:
        storage.create(GsUrl.parse(f"{bucket}/{name}"), b"1")

    def found(pattern: str) -> list[str]:
        return [item.path for item in storage.glob(GsUrl.parse(f"{bucket}/{pattern}"))]

    assert found("d/train-*") == ["d/train-0", "d/train-1", "d/train-10"]
    assert found("d/train-[01]") == ["d/train-0", "d/train-1"]
    assert found("*/eval-?") == ["d/eval-0"]
    assert found("d/train-0") == ["d/train-0"]
    assert found("nothing-*") == []


def test_the_probe_leaves_nothing(run: RunDirectory) -> None:
    """It wrote and deleted: a run may too."""
    run.storage.probe(run.url)
    assert run.storage.contents(run.url) == ()


def test_what_is_written_is_what_is_read_up_to_megabytes(run: RunDirectory) -> None:
    """Content passes unchanged, an object that exists is not overwritten, and deleting twice is fine."""
    content = bytes(range(256)) * 4096 * 9
    assert run.storage.create(run.url / "x", content)
    assert not run.storage.create(run.url / "x", b"other")
    assert run.storage.read(run.url / "x") == content
    run.storage.delete(run.url / "x")
    run.storage.delete(run.url / "x")
    assert run.storage.read(run.url / "x") is None


VERBS: list[Callable[[CloudStorage, GsUrl], object]] = [
    CloudStorage.read,
    CloudStorage.contents,
    CloudStorage.glob,
    CloudStorage.delete,
    CloudStorage.probe,
    lambda storage, url: storage.create(url, b"x"),
]
VERB_NAMES = ["read", "contents", "glob", "delete", "probe", "create"]


@pytest.mark.parametrize("verb", VERBS, ids=VERB_NAMES)
@pytest.mark.parametrize(
    ("status", "message", "kind", "complaint"),
    [
        pytest.param(404, "no such bucket", NotPermitted, "the bucket 'b-1' does not exist", id="404"),
        pytest.param(
            403, "needs storage.objects.get", NotPermitted, "anonymous .* may not .*objects.get.*grant it", id="403"
        ),
        pytest.param(401, "who are you", NotPermitted, r"who are you|credentials were refused .*renew", id="401"),
        pytest.param(400, "bad name", NotPermitted, "refused .*bad name", id="400"),
        pytest.param(429, "slow down", StorageUnavailable, "within 0.5 s", id="429"),
        pytest.param(503, "back soon", StorageUnavailable, "within 0.5 s", id="503"),
    ],
)
def test_every_refusal_is_explained(
    verb: Callable[[CloudStorage, GsUrl], object],
    status: int,
    message: str,
    kind: type[LockstepError],
    complaint: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Who, what, the server's own words, the next step; and whether another try can help."""
    monkeypatch.setattr(cloud_storage, "PATIENCE_S", 0.5)
    with answering(status, json.dumps({"error": {"code": status, "message": message}})) as address:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", f"http://{address}")
        with pytest.raises(kind, match=complaint):
            verb(CloudStorage(), GsUrl.parse("gs://b-1/x"))


def test_a_bucket_that_does_not_exist_is_told_from_an_object_that_does_not(bucket: str) -> None:
    """Reading nothing is an answer; reading from nowhere is an error."""
    assert CloudStorage().read(GsUrl.parse(f"{bucket}/nothing")) is None
    with pytest.raises(NotPermitted, match="bucket 'no-such-bucket' does not exist"):
        CloudStorage().read(GsUrl.parse("gs://no-such-bucket/nothing"))


def test_an_unreachable_server_ends_in_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retryable, and within the patience that there is."""
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", "http://127.0.0.1:9")
    monkeypatch.setattr(cloud_storage, "PATIENCE_S", 0.5)
    with pytest.raises(StorageUnavailable, match="try again"):
        CloudStorage().read(GsUrl.parse("gs://b-1/x"))


def test_missing_credentials_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an emulator, without an account and off Google's machines, the ways to give one are listed."""
    monkeypatch.delenv("STORAGE_EMULATOR_HOST", raising=False)
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    monkeypatch.setenv("CLOUDSDK_CONFIG", "/nonexistent")
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)
    with pytest.raises(NotPermitted, match=r"no credentials were found.*GOOGLE_APPLICATION_CREDENTIALS"):
        CloudStorage().read(GsUrl.parse("gs://b-1/x"))


def test_runs_have_addresses_of_their_own() -> None:
    """Run ids that differ in nothing but forbidden characters stay apart, and none of these reaches the path."""

    def url(run_id: str, map_index: int = -1) -> str:
        return run_url("gs://b-1/runs/", GangId(dag_id="d", run_id=run_id, task_id="train", map_index=map_index))

    assert url("m__1+00:00") != url("m__1-00:00")
    assert url("m__1+00:00").startswith("gs://b-1/runs/d/m__1-00-00-")
    assert not set("+:?#") & set(url("m__1+00:00").removeprefix("gs://"))
    assert url("r", 3) == url("r") + "/3"


def test_a_run_root_outside_cloud_storage_is_refused() -> None:
    """It is the installation's setting that is wrong, and the error says which."""
    with pytest.raises(InvalidSpec, match="run_root"):
        run_url("/tmp/runs", GangId(dag_id="d", run_id="r", task_id="train"))


def test_failed_attempts_are_kept_and_numbered_with_what_they_cost(run: RunDirectory) -> None:
    """The next attempt has the next number, in whatever Airflow try; the first record of an attempt stays."""
    assert (run.next_attempt(), run.backup_step(), run.last_step(1)) == (1, None, None)
    put(run, "backup/00000100/manifest.json", b"{}")
    put(run, "backup/00000200/state.json", b"{}")  # not whole
    put(run, "progress.json", json.dumps({"attempt": 1, "step": 130}).encode())
    assert (run.backup_step(), run.last_step(1), run.last_step(2)) == (100, 130, None)
    record = AttemptRecord(
        attempt=1, workers=2, launched_at=1.0, error="worker 1: lost", kind="infra", step=130, backup_step=100
    )
    run.record(record)
    run.record(replace(record, error="another"))
    assert run.next_attempt() == 2
    assert record.cost == "it goes on from step 100, 30 steps are lost"
    kept = run.read_json("attempts/0001.json")
    assert (kept["error"], kept["kind"], kept["lost_steps"]) == ("worker 1: lost", "infra", 30)
