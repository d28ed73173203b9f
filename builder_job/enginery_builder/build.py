"""The story of `build`: a prepared model becomes an engine for the device in hand. Called by `__main__`."""

import tempfile
import uuid
from pathlib import Path

from enginery_store.layout import parse_uri
from enginery_store.reasons import Reason
from enginery_store.requests import BuildRequest

from enginery_builder import compile, fetch, measure, publish, timing_cache  # noqa: A004 - the step's own name
from enginery_builder.artifacts import FetchedFiles
from enginery_builder.backend import backend_for
from enginery_builder.datasets import EVALUATION
from enginery_builder.settings import Settings
from enginery_builder.stores import Stores, open_stores
from enginery_builder.verdict import Verdict, success


def build(request: BuildRequest, settings: Settings) -> Verdict:
    """Compile, measure and publish. Raises EngineryError; what is final for this request is recorded under its key."""
    settings.work_folder.mkdir(parents=True, exist_ok=True)
    with (
        open_stores(request, settings) as stores,
        publish.final_failures_recorded(stores, request.key),
        tempfile.TemporaryDirectory(dir=settings.work_folder) as folder,
    ):
        if publish.published_engine(stores, request.key) or not _build(request, stores, Path(folder)):
            return success(Reason.REUSED_FROM_STORE, f"engine {request.key} was in the store already")
    return success(Reason.ALL_TARGETS_BUILT, f"engine {request.key} is built for {request.target.name}")


def _build(request: BuildRequest, stores: Stores, folder: Path) -> bool:
    """Returns whether this run published the engine, and no other run before it."""
    backend = backend_for(request.backend)
    compile.require_fit(backend, request)
    model = fetch.fetch_prepared(stores.store, stores.prefix, request.prepared_key, folder / "prepared")
    data = _evaluation_data(request, stores, folder / "evaluation")
    measure.require_data(model, request, data)
    name = f"model-{uuid.uuid4().hex[:8]}"  # of its own, as two builders of one key must not overwrite each other
    stored = timing_cache.read(stores, request)
    engine = compile.compile_engine(backend, model, request, folder / "engine", name, timing_cache=stored.data)
    timing_cache.replace(stores, stored, engine.compiled.timing_cache)
    measured = measure.measure(backend, engine, model, request, data)
    return publish.publish_engine(stores, request, model, engine, measured)


def _evaluation_data(request: BuildRequest, stores: Stores, folder: Path) -> FetchedFiles | None:
    if request.evaluation is None:
        return None
    return fetch.fetch_data(stores.source, parse_uri(request.evaluation.uri), folder, EVALUATION)
