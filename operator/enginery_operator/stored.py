"""What the model store says, read with the operator's own credentials, in threads and with a small cache.

Called by `observe`. The operator only reads: listings of sources, outcomes, manifests. Manifests are immutable under
their ETag, so a pass in steady state is one listing per engine.
"""

import asyncio
import logging
import math
import threading
import time
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import TypeVar

from enginery_store.client import Credentials, StoreClient
from enginery_store.errors import BucketMissingError, EngineryError, ObjectMissingError, StoreAccessError
from enginery_store.identity import fingerprint
from enginery_store.layout import (
    MANIFEST_NAME,
    PREPARED_MODEL_NAME,
    SIGNATURE_NAME,
    Location,
    engine_folder,
    parse_uri,
    prepared_folder,
    request_object,
)
from enginery_store.manifest import EngineManifest, parse_document
from enginery_store.reasons import Reason
from enginery_store.requests import Outcome, StoreAccess
from enginery_store.signing import verify

from enginery_operator.decide.seen import Trouble

_log = logging.getLogger(__name__)

LISTING_LIMIT = 10_000
"""A source with more objects is no model directory, and nobody shall make the operator list for ever."""

BUILDER_VERSION = version("enginery")
"""Builder and operator are of one distribution; what another version refused, this one may know how to do."""

REACH_SECONDS = 60
"""A prefix that answered is not asked again for so long."""

CACHE_LIMIT = 20_000
"""Documents kept of each kind; some kilobytes each."""

K = TypeVar("K")
V = TypeVar("V")

_ATTEMPTS = 2
"""Tries within one request; the work queue's back-off does the rest."""


@dataclass(frozen=True)
class Listing:
    """What a listing of a source gave: a fingerprint (empty: may not be listed), or what is wrong."""

    fingerprint: str | None
    size_bytes: int | None = None
    trouble: Trouble | None = None


@dataclass(frozen=True)
class StoredEngine:
    """A complete engine, or what keeps it from being one."""

    manifest: EngineManifest | None
    signed: bool = False
    trouble: Trouble | None = None


@dataclass
class ModelStore:
    """Reader of every tenant's prefix. Errors come back as Trouble: an outage is an observation, not a crash."""

    credentials_folder: Path
    _clients: dict[tuple[str, Credentials], StoreClient] = field(default_factory=dict)
    _reached: dict[tuple[str, str], tuple[float, Trouble | None]] = field(default_factory=dict)
    _outcomes: dict[tuple[str, Location], Outcome] = field(default_factory=dict)
    _engines: dict[tuple[Location, str, str, tuple[str, ...]], StoredEngine] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    async def listing(self, access: StoreAccess, uri: str) -> Listing:
        """The fingerprint of a source."""
        return await asyncio.to_thread(self._listing, access, uri)

    async def outcome(self, access: StoreAccess, prefix: str, key: str) -> tuple[Outcome | None, Trouble | None]:
        """The stored outcome of a request or of a build that failed for good."""
        return await asyncio.to_thread(self._outcome, access, prefix, key)

    async def engine(self, access: StoreAccess, prefix: str, key: str, keys: tuple[str, ...]) -> StoredEngine | None:
        """The engine under a key; None when there is none, or when its file is gone."""
        return await asyncio.to_thread(self._engine, access, prefix, key, keys)

    async def prepared(self, access: StoreAccess, prefix: str, key: str) -> bool:
        """Whether the prepared model that an outcome names is still there."""
        return await asyncio.to_thread(self._prepared, access, prefix, key)

    async def reach(self, access: StoreAccess, prefix: str) -> Trouble | None:
        """What is wrong with a tenant's prefix, or None; asked at most once a minute."""
        place = (access.model_dump_json(), prefix)
        asked, trouble = self._reached.get(place, (-math.inf, None))
        if trouble is not None or time.monotonic() - asked > REACH_SECONDS:
            trouble = await asyncio.to_thread(self._reach, access, prefix)
            self._reached[place] = (time.monotonic(), trouble)
        return trouble

    def _reach(self, access: StoreAccess, prefix: str) -> Trouble | None:
        try:
            self._client(access).list_objects(parse_uri(prefix), limit=1)
        except BucketMissingError as error:
            return _trouble(error)
        except ObjectMissingError:
            return None
        except EngineryError as error:
            return _trouble(error)
        return None

    def _client(self, access: StoreAccess) -> StoreClient:
        """A client per endpoint; rotated credentials make a new one in its place."""
        credentials = Credentials.from_folder(self.credentials_folder)
        identity = (access.model_dump_json(), credentials)
        with self._lock:
            if identity not in self._clients:
                for rotated in [known for known in self._clients if known[0] == identity[0]]:
                    self._clients.pop(rotated).close()
                self._clients[identity] = StoreClient(access, credentials, attempts=_ATTEMPTS)
            return self._clients[identity]

    def _keep(self, cache: dict[K, V], key: K, value: V) -> None:
        """Remember a value; the oldest goes when there are many: what came and went shall not fill the memory."""
        with self._lock:
            if len(cache) >= CACHE_LIMIT:
                del cache[next(iter(cache))]
            cache[key] = value

    def _listing(self, access: StoreAccess, uri: str) -> Listing:
        try:
            objects = self._client(access).list_objects(parse_uri(uri), limit=LISTING_LIMIT)
        except StoreAccessError:
            return Listing("")
        except EngineryError as error:
            return Listing(None, trouble=_trouble(error))
        if len(objects) > LISTING_LIMIT:
            many = f"{uri} holds more than {LISTING_LIMIT} objects; give the folder of one model"
            return Listing(None, trouble=Trouble(Reason.SOURCE_TOO_LARGE, many))
        return Listing(fingerprint(objects), sum(item.size_bytes for item in objects))

    def _outcome(self, access: StoreAccess, prefix: str, key: str) -> tuple[Outcome | None, Trouble | None]:
        try:
            where = request_object(parse_uri(prefix), key)
            known = (access.model_dump_json(), where)
            if known in self._outcomes:
                return self._outcomes[known], None
            found = self._client(access).read_document(where, Outcome)
        except EngineryError as error:
            return None, _trouble(error, passing=True)
        if found is not None and found.key != key:
            return None, Trouble(Reason.STORE_UNAVAILABLE, f"{where} is of another request", passing=True)
        if found is not None and found.failed and found.builder_version not in {"", BUILDER_VERSION}:
            return None, None
        if found is not None and not found.failed:
            self._keep(self._outcomes, known, found)
        return found, None

    def _engine(self, access: StoreAccess, prefix: str, key: str, keys: tuple[str, ...]) -> StoredEngine | None:
        try:
            folder = engine_folder(parse_uri(prefix), key)
            client = self._client(access)
            etags = {item.name: item.etag for item in client.list_objects(folder / "", limit=LISTING_LIMIT)}
            if MANIFEST_NAME not in etags:
                return None
            identity = (folder, etags[MANIFEST_NAME], etags.get(SIGNATURE_NAME, ""), keys)
            engine = self._engines.get(identity)
            if engine is None:
                engine = _read_engine(client, folder, key, keys, signed=SIGNATURE_NAME in etags)
                self._keep(self._engines, identity, engine)
        except ObjectMissingError:
            return None
        except EngineryError as error:
            return StoredEngine(None, trouble=_trouble(error, passing=True))
        if engine.manifest is not None and not {file.name for file in engine.manifest.all_files} <= set(etags):
            _log.warning("files of an engine are gone, its manifest is left", extra={"engine": str(folder)})
            return None
        return engine

    def _prepared(self, access: StoreAccess, prefix: str, key: str) -> bool:
        try:
            folder = prepared_folder(parse_uri(prefix), key)
            names = {item.name for item in self._client(access).list_objects(folder / "", limit=LISTING_LIMIT)}
        except ObjectMissingError:
            return False
        except EngineryError:
            return True  # the store does not say otherwise
        return MANIFEST_NAME in names and PREPARED_MODEL_NAME in names


def _read_engine(
    client: StoreClient, folder: Location, key: str, keys: tuple[str, ...], *, signed: bool
) -> StoredEngine:
    """Read and verify a manifest; what does not verify is final trouble, as nobody but a builder may mend it."""
    data = client.read(folder / MANIFEST_NAME)
    try:
        if keys:
            if not signed:
                return StoredEngine(None, trouble=_unverified(f"{folder} has no signature"))
            verify(keys, data, client.read(folder / SIGNATURE_NAME))
        manifest = parse_document(EngineManifest, data)
    except EngineryError as error:
        if error.retryable:
            raise
        if error.reason is Reason.CONFIG_ERROR:
            text = f"{folder}: {error.message}; correct the Tenant's spec.store.publicKeys"
            return StoredEngine(None, trouble=Trouble(Reason.ENGINE_VERIFICATION_FAILED, text))
        return StoredEngine(None, trouble=_unverified(f"{folder}: {error.message}"))
    if manifest.key != key:
        return StoredEngine(None, trouble=_unverified(f"{folder} holds the manifest of another engine"))
    return StoredEngine(manifest, signed=bool(keys))


def _unverified(message: str) -> Trouble:
    return Trouble(Reason.ENGINE_VERIFICATION_FAILED, f"{message}; remove the folder to have it built again")


def _trouble(error: EngineryError, *, passing: bool | None = None) -> Trouble:
    """`passing` overrides: what the operator itself may not read is the platform's to mend, not the tenant's."""
    keeps = error.retryable if passing is None else passing
    reason = error.reason if error.retryable or passing is None else Reason.STORE_UNAVAILABLE
    return Trouble(reason, error.message, passing=keeps)
