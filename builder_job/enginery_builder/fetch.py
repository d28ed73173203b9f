"""Brings sources, prepared models and data to local disk. Called by `prepare`, `deliver` and `build`.

A listing is taken first and judged (replaced? too large? a name that climbs?) before any byte is fetched; sizes and
digests are compared afterwards. Nothing is ever written outside the folder given.
"""

import logging
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

from enginery_store.client import FileDigest, StoreClient
from enginery_store.errors import BucketMissingError, FinalError, IntegrityError, ObjectMissingError, PassingError
from enginery_store.identity import ListedObject, content_digest, fingerprint
from enginery_store.layout import MANIFEST_NAME, Location, parse_uri, prepared_folder
from enginery_store.manifest import PreparedManifest
from enginery_store.reasons import Reason
from enginery_store.requests import PrepareRequest
from enginery_store.wording import quoted

from enginery_builder.artifacts import FetchedFiles, FetchedModel
from enginery_builder.datasets import DATA_LIMIT_BYTES, Purpose

LOG = logging.getLogger(__name__)

DOWNLOAD_ATTEMPTS = 3
"""Whole downloads of one object whose bytes came altered; the client's own retries are within each."""

_SEGMENT_BYTES = 255
"""Longest file name that Linux file systems take."""


def fetch_source(client: StoreClient, request: PrepareRequest, folder: Path) -> FetchedFiles:
    """The source of a request, as pinned: listing, size and digest judged. Raises EngineryError."""
    uri = request.source.uri
    location = parse_uri(uri)
    listing = client.list_objects(location)
    require_unchanged(listing, request.source.fingerprint, uri)
    require_size(listing, request.max_source_bytes, uri)
    source = fetch_files(client, location, listing, folder)
    require_unchanged(client.list_objects(location), fingerprint(listing), uri)
    require_digest(source, request.source.digest)
    return source


def require_unchanged(listing: Sequence[ListedObject], expected: str, uri: str) -> None:
    """The listing is the one the operator pinned. Raises PassingError: the operator asks again for the new source."""
    if expected and fingerprint(listing) != expected:
        raise PassingError(
            f"{quoted(uri)} was replaced after it was pinned; the new content will be prepared with a new request"
        )


def require_size(listing: Sequence[ListedObject], limit_bytes: int, uri: str) -> None:
    """There are bytes, and not too many. Raises FinalError (SourceInvalid, SourceTooLarge)."""
    total = sum(item.size_bytes for item in listing)
    if total == 0:
        raise FinalError(
            f"{quoted(uri)} is empty (0 bytes); upload the model file itself", reason=Reason.SOURCE_INVALID
        )
    if total > limit_bytes:
        raise FinalError(
            f"{quoted(uri)} holds {total} bytes; this installation takes {limit_bytes}", reason=Reason.SOURCE_TOO_LARGE
        )


def require_digest(source: FetchedFiles, pinned: str) -> None:
    """The content is the pinned one. Raises FinalError (DigestMismatch) that states both digests."""
    if pinned and source.digest != pinned.lower():
        raise FinalError(
            f"the source has digest {source.digest}; spec.source.digest pins {quoted(pinned)}. Upload the pinned"
            " content, or pin the new digest",
            reason=Reason.DIGEST_MISMATCH,
        )


def fetch_files(client: StoreClient, location: Location, listing: Sequence[ListedObject], folder: Path) -> FetchedFiles:
    """Download a listing into `folder` at relative paths.

    Raises FinalError (SourceInvalid for a name that leaves the folder, ConfigError for a full disk, DigestMismatch for
    bytes that differ from what was uploaded) and PassingError (replaced meanwhile, store unreachable).
    """
    _require_safe_names(item.name for item in listing)
    _require_room(folder, sum(item.size_bytes for item in listing))
    single = len(listing) == 1 and client.is_object(location)
    files: dict[str, FileDigest] = {}
    for item in listing:
        place = location if single else location / item.name
        files[item.name] = _download(client, place, folder / item.name, Reason.DIGEST_MISMATCH)
        if files[item.name].size_bytes != item.size_bytes:
            raise PassingError(f"{quoted(str(place))} was replaced while it was fetched")
    LOG.info("fetched", extra={"objects": len(files), "bytes": sum(file.size_bytes for file in files.values())})
    return FetchedFiles(folder, files, content_digest({name: file.sha256 for name, file in files.items()}))


def fetch_data(client: StoreClient, location: Location, folder: Path, purpose: Purpose) -> FetchedFiles:
    """The .npz files at a location, in one folder. Raises FinalError (the purpose's reasons): none there, too many."""
    try:
        listing = [item for item in client.list_objects(location) if item.name.endswith(".npz")]
    except (ObjectMissingError, BucketMissingError):
        listing = []
    if not listing:
        raise FinalError(
            f"no .npz file at {quoted(str(location))}; upload the {purpose.name} data as .npz files",
            reason=purpose.missing,
        )
    total = sum(item.size_bytes for item in listing)
    if total > DATA_LIMIT_BYTES:
        raise purpose.fault(f"the files hold {total} bytes; at most {DATA_LIMIT_BYTES} are read. Upload fewer samples")
    try:
        return fetch_files(client, location, listing, folder)
    except FinalError as error:
        if error.reason not in {Reason.SOURCE_INVALID, Reason.DIGEST_MISMATCH, Reason.SOURCE_NOT_FOUND}:
            raise
        raise purpose.fault(error.message) from None  # these data can be replaced, where a source is another one then


def fetch_prepared(client: StoreClient, prefix: Location, key: str, folder: Path) -> FetchedModel:
    """The prepared model under `key`, every file with the digest its manifest records.

    Raises PassingError when it is not in the store (the operator has it prepared again, under the same key), and
    FinalError (EngineVerificationFailed) when it is damaged.
    """
    place = prepared_folder(prefix, key)
    manifest = client.read_document(place / MANIFEST_NAME, PreparedManifest)
    if manifest is None:
        raise PassingError(f"the prepared model {key} is not in the store; the source must be prepared again")
    if manifest.key != key or not manifest.files:
        raise IntegrityError(f"the manifest under {key} is of another prepared model")
    _require_safe_names(file.name for file in manifest.all_files)
    _require_room(folder, sum(file.size_bytes for file in manifest.all_files))
    for file in manifest.all_files:
        expected = FileDigest(file.size_bytes, file.sha256)
        _download(client, place / file.name, folder / file.name, Reason.ENGINE_VERIFICATION_FAILED, expected)
    LOG.info("prepared model fetched", extra={"prepared": key, "files": len(manifest.all_files)})
    reference = manifest.reference_files or manifest.files
    return FetchedModel(folder / manifest.files[0].name, manifest, folder / reference[0].name)


def _download(
    client: StoreClient, place: Location, path: Path, damaged: Reason, expected: FileDigest | None = None
) -> FileDigest:
    for attempt in range(1, DOWNLOAD_ATTEMPTS + 1):
        try:
            return client.download(place, path, expected=expected)
        except IntegrityError as error:
            LOG.warning("damaged download", extra={"object": str(place), "attempt": attempt})
            damage = error
    raise FinalError(damage.message, reason=damaged)


def _require_safe_names(names: Iterable[str]) -> None:
    """Every name stays below the folder and can stand there: no climbing, no file that is also a folder."""
    every = set(names)
    for name in every:
        segments = name.split("/")
        climbs = any(segment in {"", ".", ".."} for segment in segments) or "\0" in name
        if climbs or any(len(segment.encode()) > _SEGMENT_BYTES for segment in segments):
            raise FinalError(
                f"the object name {quoted(name)} cannot be a file's path below its folder; rename or remove it",
                reason=Reason.SOURCE_INVALID,
            )
        for depth in range(1, len(segments)):
            if "/".join(segments[:depth]) in every:
                raise FinalError(
                    f"{quoted('/'.join(segments[:depth]))} is an object and a folder at once; rename one of them",
                    reason=Reason.SOURCE_INVALID,
                )


def _require_room(folder: Path, needed_bytes: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(folder).free
    if needed_bytes > free:
        raise FinalError(
            f"{needed_bytes} bytes do not fit into the builder's work volume ({free} bytes free); enlarge it",
            reason=Reason.CONFIG_ERROR,
        )
