"""TensorFlow's own `gs://`, Google's client and plain HTTP clients all see the same storage through the gateway."""

from __future__ import annotations

import base64
import json
import os
import ssl
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import google_crc32c
import httpx
import pytest
from google.api_core.exceptions import PreconditionFailed
from google.auth.credentials import AnonymousCredentials
from google.cloud.storage import Bucket, Client
from h11._headers import normalize_and_validate

from lockstep.local.gcs_gateway import Emulator, forwarded_headers, storage_host_of

TENSORFLOW_STORY = """
import json
import tensorflow as tf
files = tf.io.gfile
with tf.io.TFRecordWriter("gs://lockstep/data/train-0.tfrecord") as writer:
    for i in range(1000):
        writer.write(b"%d" % i)
found = files.glob("gs://lockstep/data/train-*.tfrecord")
records = [int(record) for record in tf.data.TFRecordDataset(found).as_numpy_iterator()]
with files.GFile("gs://lockstep/big", "wb") as file:
    file.write(b"0123456789" * 2_000_000)
variable = tf.Variable(tf.random.stateless_normal([500, 500], seed=[1, 2]))
path = tf.train.Checkpoint(v=variable).save("gs://lockstep/checkpoint/c")
restored = tf.Variable(tf.zeros([500, 500]))
tf.train.Checkpoint(v=restored).restore(path).assert_consumed()
files.makedirs("gs://lockstep/folder")
files.rename("gs://lockstep/big", "gs://lockstep/folder/renamed")
with files.GFile("gs://lockstep/folder/renamed", "rb") as file:
    read = file.read()
files.rmtree("gs://lockstep/checkpoint")
print("RESULT", json.dumps({
    "found": found,
    "records in order": records == list(range(1000)),
    "restored": bool(tf.reduce_all(variable == restored)),
    "renamed is gone": not files.exists("gs://lockstep/big"),
    "read back": read == b"0123456789" * 2_000_000,
    "checkpoint after rmtree": files.glob("gs://lockstep/checkpoint/*"),
    "foreign": files.GFile("gs://lockstep/from-google", "rb").read().decode(),
}))
"""


@pytest.fixture(scope="module")
def bucket(storage) -> Bucket:
    options = {"api_endpoint": storage.emulator}
    return Client(project="test", credentials=AnonymousCredentials(), client_options=options).bucket("lockstep")


@pytest.fixture
def through_gateway(storage) -> Iterator[httpx.Client]:
    """An HTTP client that goes the way TensorFlow's does."""
    trust = ssl.create_default_context(cafile=storage.authority)
    with httpx.Client(proxy=storage.gateway, verify=trust, trust_env=False, timeout=30) as client:
        yield client


def test_tensorflow_reads_and_writes_gs_as_it_would_the_real_one(storage, bucket):
    """Records, checkpoints, glob, rename and rmtree of an unchanged TensorFlow; Google's client sees what it wrote."""
    bucket.blob("from-google").upload_from_string("hello")

    seen = tensorflow_story(storage)

    assert seen == {
        "found": ["gs://lockstep/data/train-0.tfrecord"],
        "records in order": True,
        "restored": True,
        "renamed is gone": True,
        "read back": True,
        "checkpoint after rmtree": [],
        "foreign": "hello",
    }
    written = bucket.get_blob("folder/renamed")
    assert written.size == 20_000_000
    assert written.crc32c == crc32c(b"0123456789" * 2_000_000)
    assert sum(1 for _ in bucket.list_blobs(prefix="data/")) == 1


def tensorflow_story(storage) -> dict[str, object]:
    ended = subprocess.run(
        [sys.executable, "-c", TENSORFLOW_STORY],
        env={"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], "TF_CPP_MIN_LOG_LEVEL": "2", **storage.tensorflow},
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    return json.loads(ended.stdout.rpartition("RESULT")[2])


def crc32c(content: bytes) -> str:
    return base64.b64encode(google_crc32c.Checksum(content).digest()).decode()


def test_google_client_uploads_resumably_and_follows_the_links_of_the_answers(bucket):
    content = b"x" * 20_000_000
    bucket.blob("large").upload_from_string(content)

    found = bucket.get_blob("large")

    assert found.crc32c == crc32c(content)
    assert found.download_as_bytes() == content


def test_an_object_that_exists_is_not_written_over_when_none_is_expected(bucket):
    bucket.blob("once").upload_from_string("first")

    with pytest.raises(PreconditionFailed):
        bucket.blob("once").upload_from_string("second", if_generation_match=0)

    assert bucket.blob("once").download_as_bytes() == b"first"


def test_one_connection_carries_many_requests(through_gateway):
    """A connection is not closed between requests: TensorFlow's curl keeps it, too."""
    statuses = []
    for number in range(20):
        statuses.append(upload(through_gateway, f"many/{number}", b"%d" % number).status_code)
        statuses.append(through_gateway.head(media(f"many/{number}")).status_code)
        assert through_gateway.get(media(f"many/{number}")).content == b"%d" % number
    assert set(statuses) == {200}


def test_parallel_clients_do_not_mix(through_gateway):
    contents = {f"parallel/{number}": bytes([number]) * 300_000 for number in range(16)}
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda item: upload(through_gateway, *item), contents.items()))
        found = dict(
            zip(contents, pool.map(lambda name: through_gateway.get(media(name)).content, contents), strict=True)
        )
    assert found == contents


def test_a_client_that_waits_for_leave_to_send_gets_it(through_gateway):
    """curl asks before it sends a large body (`Expect: 100-continue`); nobody may wait for the other."""
    answer = upload(through_gateway, "asked", b"y" * 2_000_000, {"Expect": "100-continue"})
    assert answer.json()["size"] == "2000000"


@pytest.mark.parametrize("url", ["https://example.org/", "https://evil.storage.googleapis.com/"])
def test_other_hosts_are_refused(storage, url):
    """The gateway is no way out of the machine."""
    with httpx.Client(proxy=storage.gateway, trust_env=False) as client, pytest.raises(httpx.ProxyError, match="403"):
        client.get(url)


def test_a_plain_request_is_refused_with_the_reason(storage):
    with httpx.Client(proxy=storage.gateway, trust_env=False) as client:
        answer = client.get("http://example.org/")
    assert answer.status_code == 403
    assert "no_proxy" in answer.text


def test_only_who_trusts_its_authority_accepts_the_gateway(storage):
    """The certificate is the stack's own; the machine's trust store does not know it."""
    with (
        httpx.Client(proxy=storage.gateway, trust_env=False) as client,
        pytest.raises(httpx.ConnectError, match="CERT"),
    ):
        client.get("https://storage.googleapis.com/")


def test_the_authority_s_key_is_its_owner_s_alone(storage):
    assert (storage.authority.parent / "ca.key").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("head", "host"),
    [
        pytest.param(b"CONNECT www.googleapis.com:443 HTTP/1.1\r\n\r\n", "www.googleapis.com", id="the API"),
        pytest.param(b"CONNECT storage.googleapis.com:443 HTTP/1.1\r\n\r\n", "storage.googleapis.com", id="reads"),
        pytest.param(b"CONNECT oauth2.googleapis.com:443 HTTP/1.1\r\n\r\n", None, id="another host of Google's"),
        pytest.param(b"GET http://www.googleapis.com/ HTTP/1.1\r\n\r\n", None, id="not a CONNECT"),
        pytest.param(b"\r\n\r\n", None, id="nothing"),
        pytest.param(b"\xff\xfe \x00:\r\n\r\n", None, id="noise"),
    ],
)
def test_who_is_let_through(head, host):
    assert storage_host_of(head) == host


@pytest.mark.parametrize(
    ("given", "forwarded"),
    [
        pytest.param(
            (b"Location", b"http://127.0.0.1:1/u?id=2"), (b"Location", b"https://h/u?id=2"), id="led back here"
        ),
        pytest.param((b"Content-Type", b"text/plain"), (b"Content-Type", b"text/plain"), id="untouched, and so spelt"),
        pytest.param((b"Connection", b"close"), None, id="each side has its own connection"),
    ],
)
def test_headers_on_their_way(given, forwarded):
    headers = normalize_and_validate([given])
    assert next(forwarded_headers("h", headers), None) == forwarded


@pytest.mark.parametrize("address", ["https://127.0.0.1:1", "127.0.0.1:1", "http://127.0.0.1", ""])
def test_an_emulator_s_address_without_scheme_or_port_is_refused(address):
    with pytest.raises(ValueError, match="http://host:port"):
        Emulator.at(address)


def upload(client: httpx.Client, name: str, content: bytes, headers: dict[str, str] | None = None) -> httpx.Response:
    url = "https://www.googleapis.com/upload/storage/v1/b/lockstep/o"
    return client.post(url, params={"uploadType": "media", "name": name}, content=content, headers=headers)


def media(name: str) -> str:
    return f"https://storage.googleapis.com/lockstep/{name}"
