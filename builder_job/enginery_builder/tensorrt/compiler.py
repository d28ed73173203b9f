"""One build, from an ONNX file to the bytes of an engine, on any TensorRT. Called by the two backends.

What differs between them (target, workspace, timings) they set on `config` between `start` and `run`.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from enginery_tensorrt.library import Library, LineKeeper

from enginery_builder.backend import CompileOrder
from enginery_builder.tensorrt.config import allow_precision
from enginery_builder.tensorrt.errors import failure
from enginery_builder.tensorrt.network import create_network, parse
from enginery_builder.tensorrt.precisions import require_network_precision
from enginery_builder.tensorrt.profiles import add_profiles
from enginery_builder.tensorrt.progress import report_progress

if TYPE_CHECKING:
    import tensorrt as trt


@dataclass(frozen=True)
class Build:
    """A build that is ready to run. Its fields keep each other's memory alive."""

    builder: "trt.Builder"
    network: "trt.INetworkDefinition"
    parser: "trt.OnnxParser"
    config: "trt.IBuilderConfig"
    log: LineKeeper

    def run(self) -> Any:
        """The engine as a buffer in TensorRT's memory. Raises EngineryError with the cause found in the log."""
        plan: trt.IHostMemory = self.builder.build_serialized_network(self.network, self.config)
        if plan is None:
            raise failure(self.log.lines)
        return plan


def start(library: Library, order: CompileOrder) -> Build:
    """Read the model and set what both backends set.

    Raises EngineryError (SourceInvalid, UnsupportedOperator, InvalidShapes, InvalidSpec, BuildFailed).
    """
    log = library.fresh_log()
    try:
        builder: trt.Builder = library.trt.Builder(log)
    except (RuntimeError, TypeError):  # bindings raise one or the other for a constructor that gave nothing
        raise failure(log.lines) from None
    network: trt.INetworkDefinition = create_network(library, builder)
    parser: trt.OnnxParser = parse(library, network, order.model, log)
    if library.strongly_typed:
        require_network_precision(network, order.precision)
    config: trt.IBuilderConfig = builder.create_builder_config()
    config.profiling_verbosity = library.trt.ProfilingVerbosity.DETAILED
    config.builder_optimization_level = order.options.optimization_level
    allow_precision(library, config, order.precision)
    report_progress(library, config)
    add_profiles(builder, network, config, order.profiles, log)
    return Build(builder, network, parser, config, log)
