"""The only door to Cloud Storage: a few verbs over google-cloud-storage, and its errors in our words.

Credentials are Google's application default ones, or none where STORAGE_EMULATOR_HOST names an emulator. What is
stored where is run_directory.py's to know.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, cast

from lockstep.errors import LockstepError, NotPermitted, StorageUnavailable
from lockstep.gs_url import GsUrl
from lockstep.stored_object import StoredObject

if TYPE_CHECKING:
    from google.cloud.storage import Blob, Client

PATIENCE_S = 30.0
_EMULATOR = "STORAGE_EMULATOR_HOST"
_CONNECT_TIMEOUT_S = 5.0
_RESPONSE_TIMEOUT_S = 30.0
_SCOPE = "https://www.googleapis.com/auth/devstorage.read_write"


class CloudStorage:
    """Reads, writes and lists objects.

    Every method may raise NotPermitted (no credentials, no right, no such bucket) and StorageUnavailable (no proper
    answer for `PATIENCE_S` seconds, through all of google-cloud-storage's own retries).
    """

    def read(self, url: GsUrl, *, generation: int | None = None) -> bytes | None:
        """The object's content, of one generation if asked; None if there is no such object."""
        from google.api_core.exceptions import NotFound

        with self._translated(f"reading {url}", url.bucket):
            try:
                return cast("bytes", self._blob(url, generation).download_as_bytes(**self._bounds))
            except NotFound:
                self._require_bucket(url.bucket)
                return None

    def create(self, url: GsUrl, content: bytes, *, content_type: str = "application/octet-stream") -> bool:
        """Write an object that does not exist yet; False, and nothing written, if it does.

        An answer lost on its way makes a retried request find its own object: compare before believing a False.
        """
        from google.api_core.exceptions import PreconditionFailed

        with self._translated(f"writing {url}", url.bucket):
            try:
                self._blob(url).upload_from_string(
                    content, content_type=content_type, if_generation_match=0, checksum="crc32c", **self._bounds
                )
            except PreconditionFailed:
                return False
        return True

    def delete(self, url: GsUrl) -> None:
        """Remove an object; fine if there is none."""
        from google.api_core.exceptions import NotFound

        with self._translated(f"deleting {url}", url.bucket):
            try:
                self._blob(url).delete(**self._bounds)
            except NotFound:
                self._require_bucket(url.bucket)

    def contents(self, folder: GsUrl) -> tuple[StoredObject, ...]:
        """All objects below `folder`, sorted, with paths relative to it; folder placeholders left out."""
        prefix = f"{folder.name}/" if folder.name else ""
        return tuple(sorted(_stored(blob, prefix) for blob in self._listed(folder.bucket, prefix)))

    def glob(self, pattern: GsUrl) -> tuple[StoredObject, ...]:
        """All objects that match, sorted, with paths relative to the bucket; `*` and `?` do not cross a slash."""
        wanted = f"/{pattern.name}"
        found = (_stored(blob, "") for blob in self._listed(pattern.bucket, pattern.fixed_prefix))
        return tuple(sorted(item for item in found if PurePosixPath(f"/{item.path}").match(wanted)))

    def probe(self, folder: GsUrl) -> None:
        """Write, read and delete a small object in `folder`, as a run will."""
        url = folder / f".lockstep-probe-{uuid.uuid4().hex}"
        self.create(url, b"probe")
        try:
            self.read(url)
        except LockstepError:
            with suppress(LockstepError):
                self.delete(url)
            raise
        self.delete(url)

    @cached_property
    def identity(self) -> str:
        """Who storage takes us for: a service account's e-mail, as far as the credentials know it."""
        if emulator := os.environ.get(_EMULATOR):
            return f"anonymous (emulator at {emulator})"
        known = (getattr(self._credentials, name, None) for name in ("service_account_email", "account"))
        account = next(filter(None, known), None)
        return str(account or type(self._credentials).__name__)

    @cached_property
    def _credentials(self) -> Any:
        import google.auth
        from google.auth.credentials import AnonymousCredentials

        if os.environ.get(_EMULATOR):
            return AnonymousCredentials()  # type: ignore[no-untyped-call]
        return google.auth.default(scopes=[_SCOPE])[0]

    @cached_property
    def _client(self) -> Client:
        from google.cloud.storage import Client

        return Client(project=None, credentials=self._credentials)

    @cached_property
    def _bounds(self) -> dict[str, Any]:
        from google.cloud.storage.retry import DEFAULT_RETRY

        retry = DEFAULT_RETRY.with_timeout(PATIENCE_S).with_delay(initial=0.2, maximum=5.0)
        return {"retry": retry, "timeout": (_CONNECT_TIMEOUT_S, _RESPONSE_TIMEOUT_S)}

    def _blob(self, url: GsUrl, generation: int | None = None) -> Blob:
        return self._client.bucket(url.bucket).blob(url.name, generation=generation)

    def _listed(self, bucket: str, prefix: str) -> list[Blob]:
        fields = "items(name,size,crc32c,generation),nextPageToken"
        with self._translated(f"listing gs://{bucket}/{prefix}", bucket):
            blobs = self._client.list_blobs(bucket, prefix=prefix, fields=fields, **self._bounds)
            return [blob for blob in blobs if not blob.name.endswith("/")]

    def _require_bucket(self, bucket: str) -> None:
        """Raise NotFound if it is the bucket that is missing: a missing object looks the same."""
        next(iter(self._client.list_blobs(bucket, max_results=1, **self._bounds)), None)

    @contextmanager
    def _translated(self, doing: str, bucket: str) -> Iterator[None]:
        from google.api_core.exceptions import GoogleAPIError
        from google.auth.exceptions import GoogleAuthError
        from requests import RequestException

        try:
            yield
        except (GoogleAPIError, GoogleAuthError, RequestException, OSError) as error:
            raise self._explained(error, doing, bucket) from error

    def _explained(self, error: Exception, doing: str, bucket: str) -> LockstepError:
        from google.api_core.exceptions import ClientError, Forbidden, NotFound, TooManyRequests, Unauthorized
        from google.auth.exceptions import GoogleAuthError

        match error:
            case GoogleAuthError():
                return _without_credentials(error, doing)
            case NotFound():
                return NotPermitted(f"{doing}: the bucket {bucket!r} does not exist; create it, or correct the address")
            case Forbidden() | Unauthorized():
                evidence = f"{self.identity} may not ({_first_line(error)})"
                return NotPermitted(f"{doing}: {evidence}; grant it roles/storage.objectUser on the bucket {bucket!r}")
            case ClientError() if not isinstance(error, TooManyRequests):
                return NotPermitted(f"{doing}: refused ({_first_line(error)}); correct the address")
        return StorageUnavailable(
            f"{doing}: no proper answer within {PATIENCE_S:g} s ({_first_line(error)}); try again"
        )


def _without_credentials(error: Exception, doing: str) -> LockstepError:
    from google.auth.exceptions import DefaultCredentialsError, InvalidOperation

    if isinstance(error, DefaultCredentialsError) and not isinstance(error, InvalidOperation):
        return NotPermitted(
            f"{doing}: no credentials were found; give the process a service account (Workload Identity, or a key file "
            "named by GOOGLE_APPLICATION_CREDENTIALS), or STORAGE_EMULATOR_HOST for an emulator"
        )
    if getattr(error, "retryable", False):
        return StorageUnavailable(f"{doing}: Google's token service did not answer ({_first_line(error)}); try again")
    return NotPermitted(f"{doing}: the credentials were refused ({_first_line(error)}); renew them")


def _stored(blob: Blob, prefix: str) -> StoredObject:
    return StoredObject(
        path=blob.name.removeprefix(prefix),
        size_bytes=int(blob.size or 0),
        crc32c=blob.crc32c or "",
        generation=int(blob.generation or 0),
    )


def _first_line(error: Exception) -> str:
    cause = error.__cause__ if error.__cause__ is not None and not str(error) else error
    return f"{type(error).__name__}: {cause}".splitlines()[0][:300]
