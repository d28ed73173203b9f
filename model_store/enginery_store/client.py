"""The S3 client of all three programs, and the only place that imports boto3.

It adds to the SDK what a model store needs: path-segment listings, sha256 checked on both ways, files that appear
under their name only when whole, create-if-absent, and errors that say whether trying again can help. Blocking: the
operator calls it from threads.
"""

import errno
import hashlib
import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import boto3
from boto3.exceptions import Boto3Error, S3UploadFailedError
from boto3.s3.transfer import TransferConfig
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    HTTPClientError,
    NoCredentialsError,
    PartialCredentialsError,
    SSLError,
)
from botocore.exceptions import (
    ConnectionError as BotoConnectionError,
)
from s3transfer.exceptions import S3DownloadFailedError

from enginery_store.errors import (
    BucketMissingError,
    DocumentError,
    IntegrityError,
    ObjectMissingError,
    StoreAccessError,
    StoreTLSError,
    StoreUnavailableError,
)
from enginery_store.identity import ListedObject
from enginery_store.layout import Location
from enginery_store.manifest import Document, parse_document
from enginery_store.requests import StoreAccess

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

D = TypeVar("D", bound=Document)

CONNECT_TIMEOUT_SECONDS = 5
"""An endpoint that does not accept a connection in this time is unavailable."""

READ_TIMEOUT_SECONDS = 20
"""A stalled transfer ends after this silence; it is not the time a whole object may take."""

DOCUMENT_LIMIT_BYTES = 4 * 1024 * 1024
"""No document of ours is larger; a larger object under a document's name is not read into memory."""

_PART_BYTES = 16 * 1024 * 1024
_TRANSFER = TransferConfig(multipart_threshold=_PART_BYTES, multipart_chunksize=_PART_BYTES, max_concurrency=4)
_DENIED = frozenset(
    {"AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "403", "ExpiredToken", "InvalidToken"}
)
_FULL_DISK = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""Errors of the disk that a download is written to: no fault of the store's, and waiting mends none."""
_CREDENTIAL_KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")


@dataclass(frozen=True)
class Credentials:
    """What a mounted Secret gives: keys, and settings that override those of the installation."""

    access_key: str | None = None
    secret_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)
    region: str | None = None
    endpoint: str | None = None
    ca_bundle: str | None = None

    @classmethod
    def from_folder(cls, folder: Path) -> "Credentials":
        """Read a Secret mounted as files named as boto3's variables; absent files leave the SDK its own chain."""

        def value(name: str) -> str | None:
            path = folder / name
            return path.read_text().strip() or None if path.is_file() else None

        access, secret, token = map(value, _CREDENTIAL_KEYS)
        return cls(access, secret, token, value("AWS_REGION"), value("AWS_ENDPOINT_URL_S3"), value("ca.crt"))


@dataclass(frozen=True)
class FileDigest:
    """Size and sha256 (lower-case hex) of a file."""

    size_bytes: int
    sha256: str


def file_digest(path: Path) -> FileDigest:
    """Read the file once, in pieces."""
    with path.open("rb") as file:
        return FileDigest(path.stat().st_size, hashlib.file_digest(file, "sha256").hexdigest())


class StoreClient:
    """One endpoint with one set of credentials. Thread-safe, as boto3's clients are."""

    def __init__(
        self,
        access: StoreAccess,
        credentials: Credentials | None = None,
        *,
        attempts: int = 4,
        read_timeout_seconds: float = READ_TIMEOUT_SECONDS,
    ) -> None:
        """Connects lazily. `attempts` counts tries of one request, with the SDK's exponential back-off between."""
        secret = credentials or Credentials()
        self.endpoint = secret.endpoint or access.endpoint
        bundle = secret.ca_bundle or access.ca_bundle
        self._ca_file = _write_ca_file(bundle) if bundle else None
        path_style = access.addressing == "Path" or (access.addressing == "Auto" and bool(self.endpoint))
        required: Literal["when_required", "when_supported"] = (
            "when_required" if access.checksums == "WhenRequired" else "when_supported"
        )
        config = Config(
            connect_timeout=CONNECT_TIMEOUT_SECONDS,
            read_timeout=read_timeout_seconds,
            retries={"mode": "standard", "total_max_attempts": attempts},
            request_checksum_calculation=required,
            response_checksum_validation=required,
            max_pool_connections=16,
            s3={"addressing_style": "path" if path_style else "auto"},
        )
        session = boto3.session.Session(
            aws_access_key_id=secret.access_key,
            aws_secret_access_key=secret.secret_key,
            aws_session_token=secret.session_token,
            region_name=secret.region or access.region,
        )
        self._s3: S3Client = session.client(
            "s3", endpoint_url=self.endpoint or None, config=config, verify=self._ca_file
        )

    def list_objects(self, location: Location, *, limit: int | None = None) -> list[ListedObject]:
        """Objects at a location by path-segment rules, in the store's order.

        The object with exactly this key, when there is one (and the location does not end in `/`); otherwise all
        below `<key>/`, named relative to it. So `m` and `m/` never take `m-hf/a`. Directory markers are left out.
        Raises ObjectMissingError when nothing is there.
        """
        with self._converted(location):
            if location.key and not location.key.endswith("/"):
                single = self._head(location)
                if single is not None:
                    return [single]
            folder = f"{location.key.rstrip('/')}/" if location.key else ""
            found: list[ListedObject] = []
            pages = self._s3.get_paginator("list_objects_v2").paginate(Bucket=location.bucket, Prefix=folder)
            for page in pages:
                for item in page.get("Contents", []):
                    name = item["Key"][len(folder) :]
                    if name and not name.endswith("/"):
                        found.append(ListedObject(name, item["Size"], item["ETag"]))
                if limit is not None and len(found) > limit:
                    break
        if not found:
            raise ObjectMissingError(f"no object at {location} and none below it")
        return found

    def _head(self, location: Location) -> ListedObject | None:
        try:
            head = self._s3.head_object(Bucket=location.bucket, Key=location.key)
        except ClientError as error:
            if _status(error) == 404:  # noqa: PLR2004 - HTTP's word for absent; HEAD has no body to say more
                return None
            raise
        return ListedObject(location.key.rsplit("/", 1)[-1], head["ContentLength"], head["ETag"])

    def is_object(self, location: Location) -> bool:
        """Whether an object has exactly this key."""
        with self._converted(location):
            return bool(location.key) and not location.key.endswith("/") and self._head(location) is not None

    def read(self, location: Location) -> bytes:
        """The bytes of a small object (at most DOCUMENT_LIMIT_BYTES)."""
        return self.read_tagged(location, DOCUMENT_LIMIT_BYTES)[0]

    def read_tagged(self, location: Location, limit_bytes: int) -> tuple[bytes, str]:
        """The bytes of an object and their ETag, for a later `write(if_match=...)`. DocumentError beyond the limit."""
        with self._converted(location):
            answer = self._s3.get_object(Bucket=location.bucket, Key=location.key)
            body: bytes = answer["Body"].read(limit_bytes + 1)
            whole = len(body) == answer["ContentLength"]
        if len(body) > limit_bytes:
            raise DocumentError(f"{location} is larger than a document may be ({limit_bytes} bytes)")
        if not whole:
            raise StoreUnavailableError(f"the connection broke while reading {location}")
        return body, answer["ETag"]

    def read_document(self, location: Location, kind: type[D]) -> D | None:
        """The document at a location; None when there is none. Raises DocumentError when it is not of its kind."""
        try:
            return parse_document(kind, self.read(location))
        except ObjectMissingError:
            return None

    def write(self, location: Location, data: bytes, *, if_absent: bool = False, if_match: str = "") -> bool:
        """Store a small object; returns whether these bytes were written.

        With `if_absent` the first writer wins. With `if_match` they replace only the object that has this ETag. A store
        without conditional writes answers NotImplemented; then what is there is looked at before, which leaves a
        window in which two writers both write: harmless, as equal keys mean equal meaning.
        """
        condition: Any = {"IfNoneMatch": "*"} if if_absent else {"IfMatch": if_match} if if_match else {}
        with self._converted(location):
            try:
                self._s3.put_object(Bucket=location.bucket, Key=location.key, Body=data, **condition)
            except ClientError as error:
                code = error.response["Error"]["Code"]
                if condition and code in {"PreconditionFailed", "412", "ConditionalRequestConflict"}:
                    return False
                if if_match and code in {"NoSuchKey", "404"}:  # what was to be replaced is gone
                    return False
                if not condition or code not in {"NotImplemented", "501", "InvalidArgument"}:
                    raise
                there = self._head(location)
                if (there.etag if there else "") != if_match:
                    return False
                self._s3.put_object(Bucket=location.bucket, Key=location.key, Body=data)
            return True

    def upload(self, location: Location, path: Path) -> FileDigest:
        """Store a file, in parallel parts when it is large, with its sha256 in the object's metadata."""
        digest = file_digest(path)
        with self._converted(location):
            self._s3.upload_file(
                str(path),
                location.bucket,
                location.key,
                ExtraArgs={"Metadata": {"sha256": digest.sha256}},
                Config=_TRANSFER,
            )
            size = self._s3.head_object(Bucket=location.bucket, Key=location.key)["ContentLength"]
        if size != digest.size_bytes:
            raise IntegrityError(f"{location} holds {size} bytes after an upload of {digest.size_bytes}")
        return digest

    def download(self, location: Location, path: Path, *, expected: FileDigest | None = None) -> FileDigest:
        """Fetch an object to `path`, which appears only when whole and as expected; nothing half-written stays.

        `expected` comes from a signed manifest; without it the size and the sha256 that the object's metadata record
        are checked. Raises IntegrityError when they differ.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:100]}.", suffix=".part")
        os.close(handle)
        partial = Path(name)
        try:
            with self._converted(location):
                head = self._s3.head_object(Bucket=location.bucket, Key=location.key)
                self._s3.download_file(location.bucket, location.key, name, Config=_TRANSFER)
            found = file_digest(partial)
            _require_equal(location, found, head["ContentLength"], head.get("Metadata", {}).get("sha256"), expected)
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)
        return found

    def delete(self, location: Location) -> None:
        """Remove an object; absent is success."""
        with self._converted(location):
            self._s3.delete_object(Bucket=location.bucket, Key=location.key)

    def close(self) -> None:
        """Give back connections and the CA file."""
        self._s3.close()
        if self._ca_file:
            Path(self._ca_file).unlink(missing_ok=True)

    @contextmanager
    def _converted(self, location: Location) -> Iterator[None]:
        """Turn the SDK's errors into ours: the one place that knows its words."""
        try:
            yield
        except ClientError as error:
            raise self._from_answer(error, location) from None
        except SSLError as error:
            raise StoreTLSError(f"the certificate of {self._where} is not trusted: {_first_line(error)}") from None
        except (NoCredentialsError, PartialCredentialsError):
            raise StoreAccessError(
                f"no credentials for {self._where}; give AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the Secret"
            ) from None
        except ssl.SSLError as error:
            raise StoreTLSError(f"TLS with {self._where} failed: {_first_line(error)}") from None
        except S3UploadFailedError as error:
            cause = error.__context__  # the SDK puts the answer's error into words; the answer itself says more
            if isinstance(cause, ClientError):
                raise self._from_answer(cause, location) from None
            raise StoreUnavailableError(f"{self._where} took no upload: {_first_line(error)}") from None
        except S3DownloadFailedError:
            raise StoreUnavailableError(f"{location} was replaced while it was read") from None
        except Boto3Error as error:
            raise StoreUnavailableError(f"the connection to {self._where} broke: {_first_line(error)}") from None
        except (BotoConnectionError, HTTPClientError, BotoCoreError, OSError) as error:
            if isinstance(error, FileNotFoundError | PermissionError | IsADirectoryError):
                raise
            if isinstance(error, OSError) and error.errno in _FULL_DISK:
                raise
            raise StoreUnavailableError(f"{self._where} does not answer: {_first_line(error)}") from None

    @property
    def _where(self) -> str:
        return self.endpoint or "the object store"

    def _from_answer(self, error: ClientError, location: Location) -> Exception:
        code, status = error.response["Error"].get("Code", ""), _status(error)
        if code == "NoSuchBucket":
            return BucketMissingError(f"bucket {location.bucket} does not exist at {self._where}")
        if code in {"NoSuchKey", "404", "NotFound"} or status == 404:  # noqa: PLR2004 - HTTP
            return ObjectMissingError(f"no object at {location}")
        if code in _DENIED or status in {401, 403}:
            return StoreAccessError(f"access to {location} was denied ({code})")
        return StoreUnavailableError(f"{self._where} answered {code or status} for {location}")


def _require_equal(
    location: Location, found: FileDigest, size: int, recorded: str | None, expected: FileDigest | None
) -> None:
    if expected is not None and found != expected:
        raise IntegrityError(
            f"{location} has sha256 {found.sha256} and {found.size_bytes} bytes;"
            f" its manifest promises {expected.sha256} and {expected.size_bytes}"
        )
    if found.size_bytes != size:
        raise IntegrityError(f"{location} came with {found.size_bytes} of {size} bytes")
    if recorded and recorded != found.sha256:
        raise IntegrityError(f"{location} has sha256 {found.sha256}; {recorded} was uploaded")


def _write_ca_file(pem: str) -> str:
    """The SDK takes certificates from a file only."""
    with tempfile.NamedTemporaryFile("w", suffix=".crt", delete=False) as file:
        file.write(pem)
    return file.name


def _status(error: ClientError) -> int:
    metadata: Any = error.response.get("ResponseMetadata", {})
    return int(metadata.get("HTTPStatusCode", 0))


def _first_line(error: BaseException) -> str:
    return str(error).splitlines()[0][:300] if str(error) else type(error).__name__
