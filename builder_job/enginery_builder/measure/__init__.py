"""What an engine does on the device in hand: latency, memory, accuracy against the reference. Called by `build`.

The reference is the FP32 prepared model, unoptimised, in ONNX Runtime, on the same data in the same process.
"""

import ctypes
import logging

from enginery_store.manifest import AccuracyRecord
from enginery_store.reasons import Reason
from enginery_store.requests import BuildRequest

from enginery_builder.artifacts import CompiledEngine, FetchedFiles, FetchedModel, Measured
from enginery_builder.backend import Backend, OpenModel, open_reference
from enginery_builder.device import resident_bytes
from enginery_builder.measure.accuracy import gate_data, on_data, on_generated
from enginery_builder.measure.latency import WorkingPoint, latencies, working_points
from enginery_builder.precision import require_telling
from enginery_builder.precision.emulation import emulated

LOG = logging.getLogger(__name__)


def require_data(model: FetchedModel, request: BuildRequest, data: FetchedFiles | None) -> None:
    """Judge the gate's data before the compiler works for an hour. Raises FinalError (EvaluationDataInvalid): it is
    looked at again when the data may have been replaced, which an engine's own faults are not.
    """
    if request.evaluation is not None and data is not None:
        require_telling(gate_data(model.manifest.inputs, request.profiles, request.evaluation, data))


def measure(
    backend: Backend, engine: CompiledEngine, model: FetchedModel, request: BuildRequest, data: FetchedFiles | None
) -> Measured:
    """Everything a manifest records of an engine.

    Raises EngineryError (EvaluationDataInvalid, EvaluationFailed, BuildFailed).
    """
    before = _settled_memory()
    opened = backend.open(engine.files[0])
    if opened is None:
        return _ahead_of_time(backend, engine, model, request, data)
    points = working_points(opened, model.manifest, request.profiles, request.key)
    memory = opened.device_memory_bytes() or max(_settled_memory() - before, _size(engine))
    latency = latencies(opened, points)
    accuracy = _accuracy(opened, points, model, request, data)
    LOG.info("measured", extra={"metric": accuracy.metric, "degradation": accuracy.degradation, "memory": memory})
    return Measured(accuracy, tuple(latency), memory, backend.device())


def _ahead_of_time(
    backend: Backend, engine: CompiledEngine, model: FetchedModel, request: BuildRequest, data: FetchedFiles | None
) -> Measured:
    """The engine cannot run here: its prepared model stands in for it in the comparison, and nothing is timed."""
    stand_in = open_reference(emulated(model.path), Reason.EVALUATION_FAILED)
    points = working_points(stand_in, model.manifest, request.profiles, request.key)
    accuracy = _accuracy(stand_in, points, model, request, data)
    accuracy = accuracy.model_copy(update={"measured_on": "Reference"})
    LOG.info("compared ahead of time", extra={"metric": accuracy.metric, "degradation": accuracy.degradation})
    return Measured(accuracy, (), _size(engine), backend.device())


def _accuracy(
    opened: OpenModel, points: list[WorkingPoint], model: FetchedModel, request: BuildRequest, data: FetchedFiles | None
) -> AccuracyRecord:
    inputs, reference = model.manifest.inputs, open_reference(model.reference, Reason.EVALUATION_FAILED)
    if request.evaluation is not None and data is not None:
        return on_data(reference, opened, inputs, profiles=request.profiles, asked=request.evaluation, data=data)
    return on_generated(reference, opened, inputs, points, request.key)


def _size(engine: CompiledEngine) -> int:
    return sum(file.stat().st_size for file in engine.files)


def _settled_memory() -> int:
    """Resident bytes after freed memory went back to the system, so that a compilation before does not hide growth."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim:
        trim(0)
    return resident_bytes()
