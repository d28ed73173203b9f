"""The story from an empty pod to a warm engine, on a thread beside the event loop: fetch, verify, load, warm.

`__main__` calls it while the ports are open already and health says: live, not ready.
"""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from enginery_store.manifest import EngineManifest
from enginery_store.requests import ServeRequest

from enginery_runtime.backend import Backend
from enginery_runtime.datatypes import Array
from enginery_runtime.device import device_in_hand
from enginery_runtime.fetch import connect, fetch_engine, fetch_manifest
from enginery_runtime.infer import ModelShape
from enginery_runtime.load import installed_version, load
from enginery_runtime.settings import Settings
from enginery_runtime.verify import require_runnable, verify_manifest
from enginery_runtime.warm import warm

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class WarmEngine:
    """An engine that answered its warm-up, and what is known of it."""

    manifest: EngineManifest
    backend: Backend
    shape: ModelShape
    known_good: dict[str, Array]


def start(request: ServeRequest, settings: Settings, timed: Callable[[str, float], None]) -> WarmEngine:
    """Blocking; raises EngineryError with the reason the process ends with. `timed` gets seconds by phase."""
    patience = settings.store_patience_seconds
    with _phase("fetch", timed):
        device = device_in_hand(request.engines)
        store = connect(request)
        fetched = fetch_manifest(store, request, device, patience)
    with _phase("verify", timed):
        manifest = verify_manifest(fetched.key, fetched.manifest, fetched.signature, request.public_keys)
        require_runnable(manifest, device, installed_version(manifest.backend))
    with _phase("fetch", timed):
        path = fetch_engine(store, fetched.folder, manifest, settings.work_folder, patience)
        store.close()
    with _phase("load", timed):
        backend = load(manifest, path, request.threads)
    with _phase("warm", timed):
        shape = ModelShape(manifest, request.batching.max_batch_size)
        known_good = warm(backend, manifest, shape, request.warmup_requests)
    return WarmEngine(manifest, backend, shape, known_good)


@contextmanager
def _phase(name: str, timed: Callable[[str, float], None]) -> Iterator[None]:
    began = time.monotonic()
    yield
    seconds = time.monotonic() - began
    log.info("start phase done", extra={"phase": name, "seconds": round(seconds, 3)})
    timed(name, seconds)
