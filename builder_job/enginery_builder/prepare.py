"""The story of `prepare`: a source becomes a prepared model, once per content. Called by `__main__`.

It needs no device. Whatever is wrong with a source is said here, before a GPU is taken.
"""

import tempfile
from pathlib import Path

from enginery_store.identity import fingerprint
from enginery_store.layout import parse_uri
from enginery_store.requests import Outcome, PrepareRequest

from enginery_builder import check, convert, fetch, publish
from enginery_builder.artifacts import FetchedFiles
from enginery_builder.settings import Settings
from enginery_builder.stores import Stores, open_stores
from enginery_builder.verdict import Verdict, success


def prepare(request: PrepareRequest, settings: Settings) -> Verdict:
    """Prepare and publish. Raises EngineryError; a failure final for this request is recorded under its key."""
    settings.work_folder.mkdir(parents=True, exist_ok=True)
    with (
        open_stores(request, settings) as stores,
        publish.final_failures_recorded(stores, request.key),
        tempfile.TemporaryDirectory(dir=settings.work_folder) as folder,
    ):
        done = publish.recorded_success(stores, request.key) or _prepare(request, stores, Path(folder))
    return success(done.reason, f"{done.source_digest} is prepared as {done.prepared_key}")


def _prepare(request: PrepareRequest, stores: Stores, folder: Path) -> Outcome:
    convert.require_convertible(request.source, request.precision)
    source = _fetch(request, stores, folder / "source")
    checked = check.check_model(source)
    check.check_profiles(checked.inputs, request.profiles)
    check.check_runs(checked, request.profiles)
    model = convert.convert(checked, folder / "prepared")
    key = publish.key_of_prepared(request, source, model.precision)
    publish.publish_prepared(stores, key, request, source, model)
    return publish.record_success(stores, request, source, key)


def _fetch(request: PrepareRequest, stores: Stores, folder: Path) -> FetchedFiles:
    uri = request.source.uri
    location = parse_uri(uri)
    listing = stores.source.list_objects(location)
    fetch.require_unchanged(listing, request.source.fingerprint, uri)
    fetch.require_size(listing, request.max_source_bytes, uri)
    source = fetch.fetch_files(stores.source, location, listing, folder)
    fetch.require_unchanged(stores.source.list_objects(location), fingerprint(listing), uri)
    fetch.require_digest(source, request.source.digest)
    return source
