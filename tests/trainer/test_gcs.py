"""The demo's training against Cloud Storage, with the commands that its pods run and TensorFlow's own `gs://`."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from google.auth.credentials import AnonymousCredentials
from google.cloud.storage import Bucket, Client

from lockstep.local import service_process
from lockstep.local.layout import BUCKET, StackLayout
from lockstep.local.ports import choose_ports
from lockstep.local.service_start import await_ready
from lockstep.local.storage_service import EMULATOR, GATEWAY, make_bucket, storage_services, tensorflow_environment
from tests.trainer.gangs import PATIENCE_S, Gangs, environment, termination_log
from tests.trainer.ports import free_addresses

ROOT = Path(__file__).parents[2]
RUN = f"gs://{BUCKET}/runs/digits/1"
DATA = f"gs://{BUCKET}/datasets/digits"
TRAINING = {
    "job": "trainer.examples.digits:DigitsJob",
    "train_data": f"{DATA}/train-*.tfrecord",
    "eval_data": f"{DATA}/eval-*.tfrecord",
    "epochs": 6,
    "per_replica_batch_size": 32,
    "learning_rate": 0.001,
}


@pytest.fixture(scope="module")
def gs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, str]]:
    """The variables that lead TensorFlow's gs:// to an emulator. Without `no_proxy`: the trainer itself must see to it
    that the workers' own talk goes past the proxy."""
    layout = StackLayout.of(tmp_path_factory.mktemp("storage"))
    ports = choose_ports((EMULATOR, GATEWAY), {}, running=())
    services = storage_services(layout, ports)
    processes = {service.name: service_process.start(service, layout.log(service.name)) for service in services}
    try:
        await_ready(services, processes, layout.log, print)
        make_bucket(ports)
        variables = tensorflow_environment(layout, ports)
        yield {name: value for name, value in variables.items() if name != "no_proxy"}
    finally:
        service_process.end(list(processes.values()))


@pytest.fixture(scope="module")
def bucket(gs: Mapping[str, str]) -> Bucket:
    """The emulator's bucket, seen by Google's own client."""
    options = {"api_endpoint": gs["STORAGE_EMULATOR_HOST"]}
    return Client(project="test", credentials=AnonymousCredentials(), client_options=options).bucket(BUCKET)


@pytest.fixture(scope="module")
def outputs(gs: Mapping[str, str], tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What the two workers said; the digits are prepared and trained on by commands, as in pods."""
    command(gs, "trainer.examples.digits", "prepare", "--output", DATA, "--files", "4")
    directory, addresses = tmp_path_factory.mktemp("workers"), free_addresses(2)
    workers = [
        subprocess.Popen(
            [sys.executable, "-m", "trainer"],
            cwd=ROOT,
            env={**environment(RUN, addresses, rank, 1, TRAINING, directory), **gs},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in (0, 1)
    ]
    try:
        said = [worker.communicate(timeout=PATIENCE_S)[0] for worker in workers]
    finally:
        for worker in workers:
            worker.kill()
    assert [worker.returncode for worker in workers] == [0, 0], "\n".join(said)
    assert [termination_log(directory, rank).read_bytes() for rank in (0, 1)] == [b"", b""]
    return said


def command(gs: Mapping[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", *arguments], cwd=ROOT, env=gs, capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def read(bucket: Bucket, name: str) -> Any:
    return json.loads(bucket.blob(name).download_as_bytes())


def test_two_workers_learn_to_read_digits(outputs: list[str], bucket: Bucket) -> None:
    result = read(bucket, "runs/digits/1/result.json")
    assert result["strategy"] == "MultiWorkerMirroredStrategy"
    assert result["metrics"]["eval_accuracy"] >= 0.95
    assert result["scaling"]["train_samples"] == 1437
    assert "plan: batch 64 = 2 replicas × 32" in outputs[0]
    assert "sharding: FILE, 4 files on 2 workers" in outputs[0]


@pytest.mark.usefixtures("outputs")
def test_storage_reports_the_sizes_and_checksums_of_every_manifest(bucket: Bucket) -> None:
    stored = {blob.name: (blob.size, blob.crc32c) for blob in bucket.list_blobs(prefix="runs/digits/1/")}
    manifests = [name for name in stored if name.endswith("/manifest.json")]
    assert len(manifests) == 5  # a model, two checkpoints, two backups
    listed = {}
    for name in manifests:
        directory = name.removesuffix("manifest.json")
        listed |= {directory + e["path"]: (e["size_bytes"], e["crc32c"]) for e in read(bucket, name)["files"]}
    others = [f"runs/digits/1/{name}" for name in ("metrics.jsonl", "progress.json", "result.json")]
    assert listed == {name: stored[name] for name in stored if name not in [*manifests, *others]}


@pytest.mark.usefixtures("outputs")
def test_the_export_is_verified_in_a_fresh_process(gs: Mapping[str, str]) -> None:
    assert "loads in a fresh process" in command(gs, "trainer.verify_model", RUN).stdout


@pytest.mark.usefixtures("outputs")
def test_a_damaged_export_is_not_verified(gs: Mapping[str, str], bucket: Bucket, tmp_path: Path) -> None:
    damaged, log = "runs/digits/damaged", tmp_path / "termination"
    for blob in bucket.list_blobs(prefix="runs/digits/1/"):
        if blob.name.endswith("result.json") or "/model/" in blob.name:
            content = blob.download_as_bytes()
            name = blob.name.replace("runs/digits/1", damaged)
            bucket.blob(name).upload_from_string(content[:-1] if name.endswith("saved_model.pb") else content)
    done = subprocess.run(
        [sys.executable, "-m", "trainer.verify_model", f"gs://{BUCKET}/{damaged}"],
        cwd=ROOT,
        env={**gs, "LOCKSTEP_TERMINATION_LOG": str(log)},
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 65
    told = json.loads(log.read_bytes())
    assert told["kind"] == "data"
    assert "saved_model.pb has" in told["message"]


def test_a_missing_bucket_is_named_before_training(gs: Mapping[str, str], gangs: Gangs) -> None:
    gang = gangs.start("gs://no-such-bucket/run", workers=1, env=dict(gs))
    assert gang.outcome() == [64], gang.logs()
    told = gang.message(0)
    assert told["kind"] == "request"
    assert "Does gs://no-such-bucket exist" in told["message"]
