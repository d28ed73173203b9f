"""What an engine does on the device in hand: latency, memory, accuracy against the reference. Called by `build`.

The reference is the FP32 prepared model, unoptimised, in ONNX Runtime, on the same data in the same process.
"""

import ctypes
import logging

from enginery_store.reasons import Reason
from enginery_store.requests import BuildRequest

from enginery_builder.artifacts import CompiledEngine, FetchedFiles, FetchedModel, Measured
from enginery_builder.backend import Backend, open_reference
from enginery_builder.device import resident_bytes
from enginery_builder.measure.accuracy import on_data, on_generated
from enginery_builder.measure.latency import latencies, working_points

LOG = logging.getLogger(__name__)


def measure(
    backend: Backend, engine: CompiledEngine, model: FetchedModel, request: BuildRequest, data: FetchedFiles | None
) -> Measured:
    """Everything a manifest records of an engine.

    Raises EngineryError (EvaluationDataInvalid, EvaluationFailed, BuildFailed).
    """
    inputs, seed = model.manifest.inputs, request.key
    before = _settled_memory()
    opened = backend.open(engine.files[0])
    points = working_points(opened, inputs, request.profiles, seed)
    memory = max(_settled_memory() - before, sum(file.stat().st_size for file in engine.files))
    latency = latencies(opened, points)
    reference = open_reference(model.path, Reason.EVALUATION_FAILED)
    if request.evaluation is not None and data is not None:
        accuracy = on_data(reference, opened, inputs, profiles=request.profiles, asked=request.evaluation, data=data)
    else:
        accuracy = on_generated(reference, opened, inputs, [point.shapes for point in points], seed)
    LOG.info("measured", extra={"metric": accuracy.metric, "degradation": accuracy.degradation, "memory": memory})
    return Measured(accuracy, tuple(latency), memory, backend.device())


def _settled_memory() -> int:
    """Resident bytes after freed memory went back to the system, so that a compilation before does not hide growth."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim:
        trim(0)
    return resident_bytes()
