"""The story of `prepare`: a source becomes a prepared model, once per content. Called by `__main__`.

It needs no device. Whatever is wrong with a source is said here, before a GPU is taken.
"""

import tempfile
from dataclasses import replace
from pathlib import Path

from enginery_store.layout import parse_uri
from enginery_store.requests import Outcome, PrepareRequest

from enginery_builder import fetch, handover, precision, publish
from enginery_builder.artifacts import CheckedModel
from enginery_builder.check.apart import check_apart
from enginery_builder.datasets import CALIBRATION, EVALUATION
from enginery_builder.handover import Received
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
        done = publish.recorded_success(stores, request.key) or _prepare(
            request, stores, Path(folder), settings.work_folder
        )
    return success(done.reason, f"{done.source_digest} is prepared as {done.prepared_key}")


def _prepare(request: PrepareRequest, stores: Stores, folder: Path, work: Path) -> Outcome:
    received = _source(request, stores, folder / "source", work)
    source = received.source
    checked = check_apart(received.model, request)
    checked = replace(checked, notes=(*received.warnings, *checked.notes))
    samples = _samples(request, stores, checked, folder)
    model = precision.apply(checked, request.precision, samples, folder / "prepared", request.profiles)
    key = publish.key_of_prepared(request, source, model, received.tool_versions)
    publish.publish_prepared(stores, key, request, source, model, converters=received.tool_versions)
    return publish.record_success(stores, request, source, key, model)


def _samples(request: PrepareRequest, stores: Stores, checked: CheckedModel, folder: Path) -> precision.Samples | None:
    """The inputs that scales, or what could overflow, are measured on. BF16 has FP32's range, and asks for none."""
    asked, kind = request.precision.calibration, request.precision.type
    if asked is None or kind in {"FP32", "BF16"} or request.precision.prequantized:
        return None
    if kind == "FP16":
        data = fetch.fetch_data(stores.source, parse_uri(asked.uri), folder / "evaluation", EVALUATION)
        return precision.gate_samples(data, checked.inputs, request.profiles, asked.samples)
    data = fetch.fetch_data(stores.source, parse_uri(asked.uri), folder / "calibration", CALIBRATION)
    compared = None
    if asked.evaluation_uri:
        compared = fetch.fetch_data(stores.source, parse_uri(asked.evaluation_uri), folder / "evaluation", EVALUATION)
    return precision.calibration_samples(data, compared, checked.inputs, request.profiles, asked.samples)


def _source(request: PrepareRequest, stores: Stores, folder: Path, work: Path) -> Received:
    """The source as ONNX: fetched here, or what the containers before this one made of it."""
    if request.source.format != "ONNX":
        return handover.received(work, request.max_source_bytes)
    source = fetch.fetch_source(stores.source, request, folder)
    return Received(source, source)
