"""Our own validation of what tenants upload. Called by `prepare`, before anything else reads the model.

Parsers accept a store's error page, weights of NaN and graphs without a graph, and fail much later in words nobody
understands. So each check here is small, looks at one thing, and says what is wrong, where, and what to do instead.
Every failure is a FinalError: SourceInvalid, UnsupportedFormat, UnsupportedOperator, InvalidShapes or InvalidSpec. What
is merely odd becomes a note.
"""

import logging

from enginery_store.requests import PrepareRequest

from enginery_builder.artifacts import CheckedModel, FetchedFiles
from enginery_builder.check import (
    container,
    external_data,
    graph,
    memory,
    names,
    oddities,
    operators,
    profiles,
    quantization,
    tensorrt_limits,
    tensors,
    training,
    trial,
    versions,
)
from enginery_builder.check.shape_inputs import shape_inputs
from enginery_builder.check.structure import structure_of
from enginery_builder.onnx_files import external_fields, external_tensors

LOG = logging.getLogger(__name__)


def check_model(source: FetchedFiles) -> CheckedModel:
    """The source holds one ONNX model that is whole, well-formed, finite, and made of known operators."""
    container.require_plain_files(source)
    path = container.model_file(source)
    model = container.read_model(path)
    names.require_text(model)
    external_data.require_inside(model, path, source)
    graph.require_structure(model)
    opset = versions.require_known(model)
    graph.require_wiring(model.graph)
    operators.require_known(model)
    inputs, outputs = graph.interface(model.graph)
    tensors.require_sound(model, path)
    notes = names.with_unique_node_names(model, path)
    structure = structure_of(path)
    training.require_inference(structure)
    quantization.require_positive_scales(structure)
    declared = {value.name for value in model.graph.output if value.type.tensor_type.HasField("shape")}
    outputs = trial.with_inferred_shapes(path, outputs, declared, structure)
    external = dict.fromkeys(external_fields(tensor)["location"] for tensor in external_tensors(model))
    LOG.info("model checked", extra={"nodes": len(model.graph.node), "opset": opset, "external": len(external)})
    notes += oddities.notes(structure)
    return CheckedModel(path, tuple(external), inputs, outputs, opset, shape_inputs(model.graph), tuple(notes))


def check_request(model: CheckedModel, request: PrepareRequest) -> None:
    """The model can be what the request asks for: profiles fit it, its backends take it, and it runs."""
    asked = request.profiles
    profiles.require_fitting(model.inputs, asked, model.shape_inputs)
    structure = structure_of(model.path)
    memory.require_bounded(structure, model.inputs, asked)
    for backend in request.backends:
        if backend != "ONNXRuntime":
            quantization.require_declared(structure, request.precision.type)
            tensorrt_limits.require_tensorrt(backend, structure, model.inputs, model.outputs)
            tensorrt_limits.require_ranges(model.inputs, model.shape_inputs, asked)
    trial.require_running(model, structure, asked)
