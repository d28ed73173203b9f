"""Writes to the model store what was made, so that what is there is whole. Called by `prepare` and `build`."""

import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

from enginery_store.identity import prepared_key
from enginery_store.layout import MANIFEST_NAME, SOURCE_NAME, Location, engine_folder, prepared_folder
from enginery_store.manifest import EngineManifest, PreparedManifest
from enginery_store.requests import BuildRequest, PrepareRequest

from enginery_builder.artifacts import CompiledEngine, ConvertedModel, FetchedFiles, FetchedModel, Measured
from enginery_builder.precision import RULES
from enginery_builder.publish.commit import commit, is_whole, replace, upload
from enginery_builder.publish.outcomes import final_failures_recorded, record_success, recorded_success
from enginery_builder.stores import Stores

__all__ = [
    "final_failures_recorded",
    "key_of_prepared",
    "publish_engine",
    "publish_prepared",
    "published_engine",
    "record_success",
    "recorded_success",
]

LOG = logging.getLogger(__name__)


def published_engine(stores: Stores, key: str) -> bool:
    """Whether this engine is complete in the store."""
    return is_whole(stores.store, engine_folder(stores.prefix, key), EngineManifest)


def key_of_prepared(
    request: PrepareRequest, source: FetchedFiles, model: ConvertedModel, converters: Mapping[str, str]
) -> str:
    """Key of what this source became: by these converters, at this precision, with what was measured on which inputs.

    Profiles count as far as inputs were generated, or cut into batches, by them: other inputs find other overflow.
    """
    asked = request.precision
    precision: dict[str, Any] = {"type": asked.type}
    if asked.type != "FP32":
        precision |= {
            "rules": RULES,
            "rest": asked.rest,
            "prequantized": asked.prequantized,
            "measured": dict(model.measured_on),
        }
    return prepared_key(
        source_digest=source.digest,
        source_format=request.source.format,
        precision=precision,
        task=request.source.task,
        converters=converters,
    )


def publish_prepared(
    stores: Stores,
    key: str,
    request: PrepareRequest,
    source: FetchedFiles,
    model: ConvertedModel,
    *,
    converters: Mapping[str, str],
) -> None:
    """Store a prepared model under `key`; nothing when it is there already. Raises store errors.

    `converters` holds versions of the framework and exporter that made it ONNX, by name; empty for an ONNX source.
    """
    place = prepared_folder(stores.prefix, key)
    if is_whole(stores.store, place, PreparedManifest):
        LOG.info("prepared model is in the store already", extra={"prepared": key})
        return
    files, reference = upload(stores.store, place, model.files), upload(stores.store, place, model.reference)
    manifest = PreparedManifest(
        key=key,
        source_digest=source.digest,
        source_size_bytes=source.size_bytes,
        source_format=request.source.format,
        precision=model.precision,
        inputs=list(model.checked.inputs),
        outputs=list(model.checked.outputs),
        shape_inputs=list(model.checked.shape_inputs),
        files=files,
        reference_files=reference,
        opset=model.checked.opset,
        calibration=model.calibration,
        kept_nodes=list(model.kept_nodes),
        tool_versions={**converters, **{name: version(name) for name in ("enginery", "onnx", "onnxruntime")}},
        created_at=datetime.now(UTC),
    )
    stores.store.write(place / SOURCE_NAME, manifest.to_json())
    if not commit(stores, place, manifest.to_json()):
        _settle(stores, place, manifest, model)
    LOG.info("prepared model published", extra={"prepared": key})


def _settle(stores: Stores, place: Location, manifest: PreparedManifest, model: ConvertedModel) -> None:
    """Another builder committed this key meanwhile. Files have fixed names, as models refer to each other by them, so
    ours may stand where its manifest promises its own: scales differ in their last bits from one kind of CPU to
    another. Then everything is stored once more as ours.
    """
    other = stores.store.read_document(place / MANIFEST_NAME, PreparedManifest)
    if other is not None and other.all_files == manifest.all_files:
        return
    LOG.warning("replacing a prepared model whose files differ", extra={"prepared": manifest.key})
    upload(stores.store, place, (*model.files, *model.reference))
    replace(stores, place, manifest.to_json())


def publish_engine(
    stores: Stores, request: BuildRequest, model: FetchedModel, engine: CompiledEngine, measured: Measured
) -> bool:
    """Store an engine under the request's key; False when another builder of the same key was first."""
    place = engine_folder(stores.prefix, request.key)
    files = upload(stores.store, place, engine.files)
    manifest = EngineManifest(
        key=request.key,
        prepared_key=request.prepared_key,
        source_digest=model.manifest.source_digest,
        target=request.target,
        backend=request.backend,
        backend_version=request.backend_version,
        file=files[0],
        extra_files=files[1:],
        inputs=model.manifest.inputs,
        outputs=model.manifest.outputs,
        shape_inputs=model.manifest.shape_inputs,
        profiles=request.profiles,
        options=request.options,
        precision_requested=request.precision.type,
        precision_effective=model.manifest.precision,
        accuracy=measured.accuracy,
        latency=list(measured.latency),
        device=measured.device,
        device_memory_bytes=measured.memory_bytes,
        layers=dict(engine.compiled.layers),
        build_seconds=engine.build_seconds,
        build_peak_memory_bytes=engine.peak_memory_bytes,
        timing_cache=engine.compiled.timing_cache_state,
        builder_version=version("enginery"),
        created_at=datetime.now(UTC),
    )
    won = commit(stores, place, manifest.to_json())
    if not won:
        for file in files:
            stores.store.delete(place / file.name)
    LOG.info("engine published", extra={"engine": request.key, "first": won})
    return won
