"""Our own validation of what tenants upload. Called by `prepare`, before anything else reads the model.

Parsers accept a store's error page, weights of NaN and graphs without a graph, and fail much later in words nobody
understands. So each check here is small, looks at one thing, and says what is wrong, where, and what to do instead.
Every failure is a FinalError: SourceInvalid, UnsupportedFormat, UnsupportedOperator or InvalidShapes.
"""

import logging
from collections.abc import Sequence

from enginery_store.manifest import ShapeProfile, TensorSpec

from enginery_builder.artifacts import CheckedModel, FetchedFiles
from enginery_builder.check import container, external_data, graph, operators, profiles, tensors, trial, versions
from enginery_builder.onnx_files import external_fields, external_tensors

LOG = logging.getLogger(__name__)


def check_model(source: FetchedFiles) -> CheckedModel:
    """The source holds one ONNX model that is whole, well-formed, finite, and made of known operators."""
    path = container.model_file(source)
    model = container.read_model(path)
    external_data.require_inside(model, path, source)
    graph.require_structure(model)
    opset = versions.require_known(model)
    graph.require_wiring(model.graph)
    operators.require_known(model)
    inputs, outputs = graph.interface(model.graph)
    tensors.require_sound(model, path)
    declared = {value.name for value in model.graph.output if value.type.tensor_type.HasField("shape")}
    outputs = trial.with_inferred_shapes(path, outputs, declared)
    external = dict.fromkeys(external_fields(tensor)["location"] for tensor in external_tensors(model))
    LOG.info("model checked", extra={"nodes": len(model.graph.node), "opset": opset, "external": len(external)})
    return CheckedModel(path, tuple(external), inputs, outputs, opset)


def check_profiles(inputs: Sequence[TensorSpec], asked: Sequence[ShapeProfile]) -> None:
    """The profiles fit the inputs, by their numbers alone."""
    profiles.require_fitting(inputs, asked)


def check_runs(model: CheckedModel, asked: Sequence[ShapeProfile]) -> None:
    """The model runs at both ends of every profile."""
    trial.require_running(model, asked)
