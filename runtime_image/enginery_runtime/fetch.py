"""From the store to local disk: the manifest of the engine for this device, and the engine. First step of `startup`.

A store that does not answer, and a transfer that came damaged, are tried again for a while; everything else ends the
start with its reason.
"""

import logging
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from enginery_store.errors import BucketMissingError, IntegrityError, ObjectMissingError, PassingError
from enginery_store.layout import MANIFEST_NAME, SIGNATURE_NAME, Location, engine_folder, parse_uri
from enginery_store.manifest import DeviceFacts, EngineManifest, StoredFile
from enginery_store.requests import STORE_CREDENTIALS_FOLDER, ServeRequest

from enginery_runtime.device import pick
from enginery_runtime.errors import EngineLoadError, EngineVerificationError

if TYPE_CHECKING:
    from enginery_store.client import StoreClient

log = logging.getLogger(__name__)

CREDENTIALS_ROOT_VARIABLE = "ENGINERY_CREDENTIALS_ROOT"
"""Folder with the mounted Secret `store`, for processes that are no pods; empty in a pod."""

DOWNLOAD_ATTEMPTS = 3
"""How often an engine that came damaged is fetched; damage on the way passes, damage in the store does not."""

_FIRST_PAUSE_SECONDS = 0.5
_LONGEST_PAUSE_SECONDS = 10.0

T = TypeVar("T")


@dataclass(frozen=True)
class Fetched:
    """What the store holds under the key asked for; nothing of it is trusted yet."""

    key: str
    folder: Location
    manifest: bytes
    signature: bytes | None
    """None where there is none, or none is required."""


def connect(request: ServeRequest) -> "StoreClient":
    """The store with this pod's credentials. Imports the S3 library, which takes a moment."""
    from enginery_store.client import Credentials, StoreClient

    root = Path(os.environ.get(CREDENTIALS_ROOT_VARIABLE) or STORE_CREDENTIALS_FOLDER.parent)
    folder = root / STORE_CREDENTIALS_FOLDER.name
    return StoreClient(request.store, Credentials.from_folder(folder), attempts=2)


def fetch_manifest(
    store: "StoreClient", request: ServeRequest, device: DeviceFacts, patience_seconds: float
) -> Fetched:
    """Manifest and signature of the engine for this device."""
    engine = pick(request.engines, device)
    folder = engine_folder(parse_uri(request.prefix), engine.key)

    def read() -> Fetched:
        manifest = store.read(folder / MANIFEST_NAME)
        return Fetched(engine.key, folder, manifest, signature() if request.public_keys else None)

    def signature() -> bytes | None:
        try:
            return store.read(folder / SIGNATURE_NAME)
        except ObjectMissingError:
            return None

    return _patiently(read, patience_seconds)


def fetch_engine(store: "StoreClient", folder: Location, manifest: EngineManifest, to: Path, patience: float) -> Path:
    """The engine's file, and beside it those it refers to, each with exactly the size and sha256 of the manifest."""
    for file in [*manifest.extra_files, manifest.file]:
        path = _fetch_file(store, folder, file, to / manifest.key, patience)
    return path


def _fetch_file(store: "StoreClient", folder: Location, file: StoredFile, to: Path, patience: float) -> Path:
    from enginery_store.client import FileDigest

    if Path(file.name).is_absolute() or ".." in Path(file.name).parts:
        raise EngineVerificationError(f"the manifest names a file outside its folder: {file.name!r}")
    expected = FileDigest(file.size_bytes, file.sha256)
    path = to / file.name

    def download() -> Path:
        for attempt in range(1, DOWNLOAD_ATTEMPTS + 1):
            try:
                store.download(folder / file.name, path, expected=expected)
            except IntegrityError as error:
                log.warning("the engine came damaged", extra={"attempt": attempt, "error": error.message})
                if attempt == DOWNLOAD_ATTEMPTS:
                    raise
            else:
                break
        return path

    return _patiently(download, patience)


def _patiently(action: Callable[[], T], patience_seconds: float) -> T:
    """Repeat what fails in passing, with growing pauses, until the patience is used up."""
    give_up = time.monotonic() + patience_seconds
    pause = _FIRST_PAUSE_SECONDS
    while True:
        try:
            return action()
        except (ObjectMissingError, BucketMissingError) as error:
            raise EngineLoadError(f"the engine is not in the store: {error.message}") from None
        except PassingError as error:
            if time.monotonic() + pause > give_up:
                raise
            log.warning("the store does not answer, trying again", extra={"error": error.message, "pause": pause})
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
