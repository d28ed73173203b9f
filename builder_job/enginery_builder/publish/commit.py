"""One commit into the model store: blobs, signature, manifest, and who wins. Called by `publish`.

Blobs come first, `manifest.sig` next and `manifest.json` last: a key with a manifest is complete. Two builders of one
key may finish together. Whoever stores the signature first goes on; the other waits for that manifest and keeps its
own back, so that a manifest never stands beside another builder's signature.
"""

import logging
import time
from pathlib import Path

from enginery_store.client import StoreClient
from enginery_store.layout import MANIFEST_NAME, SIGNATURE_NAME, Location
from enginery_store.manifest import EngineManifest, PreparedManifest, StoredFile
from enginery_store.signing import sign

from enginery_builder.stores import Stores

LOG = logging.getLogger(__name__)

PEER_PATIENCE_SECONDS = 5.0
"""How long another builder of the same key may take between signature and manifest before it counts as dead."""

_PEER_POLL_SECONDS = 0.25


def is_whole(store: StoreClient, place: Location, kind: type[PreparedManifest | EngineManifest]) -> bool:
    """Whether the folder has its manifest and every file that it names.

    A manifest whose files were removed is taken away, so that the artifact can be made again. Raises store errors.
    """
    manifest = store.read_document(place / MANIFEST_NAME, kind)
    if manifest is None:
        return False
    missing = [file.name for file in manifest.all_files if not store.is_object(place / file.name)]
    if missing:
        LOG.warning("removing a manifest whose files are gone", extra={"place": str(place), "missing": missing})
        store.delete(place / MANIFEST_NAME)
        store.delete(place / SIGNATURE_NAME)
    return not missing


def upload(store: StoreClient, place: Location, files: tuple[Path, ...]) -> list[StoredFile]:
    """Store files under their own names; returns what a manifest says of them. Raises store errors."""
    stored = []
    for path in files:
        digest = store.upload(place / path.name, path)
        LOG.info("uploaded", extra={"file": path.name, "bytes": digest.size_bytes})
        stored.append(StoredFile(name=path.name, sha256=digest.sha256, size_bytes=digest.size_bytes))
    return stored


def commit(stores: Stores, place: Location, manifest: bytes) -> bool:
    """Signature, then manifest; the first builder wins. Returns whether this one did."""
    signature = sign(stores.signing_key, manifest)
    if not stores.store.write(place / SIGNATURE_NAME, signature, if_absent=True):
        if _peer_finishes(stores.store, place):
            return False
        LOG.warning("replacing the signature of a builder that died", extra={"place": str(place)})
        stores.store.write(place / SIGNATURE_NAME, signature)
    return stores.store.write(place / MANIFEST_NAME, manifest, if_absent=True)


def replace(stores: Stores, place: Location, manifest: bytes) -> None:
    """Signature and manifest in the place of another builder's."""
    stores.store.write(place / SIGNATURE_NAME, sign(stores.signing_key, manifest))
    stores.store.write(place / MANIFEST_NAME, manifest)


def _peer_finishes(store: StoreClient, place: Location) -> bool:
    """Whether the manifest that belongs to the signature in the store appears in time."""
    deadline = time.monotonic() + PEER_PATIENCE_SECONDS
    while not store.is_object(place / MANIFEST_NAME):
        if time.monotonic() > deadline:
            return False
        time.sleep(_PEER_POLL_SECONDS)
    return True
