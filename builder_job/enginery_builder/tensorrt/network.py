"""From an ONNX file to a TensorRT network. Called by `compiler`."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from enginery_tensorrt.library import Library, LineKeeper, member

from enginery_builder.tensorrt.errors import ParserFault, failure

if TYPE_CHECKING:
    import tensorrt as trt


def create_network(library: Library, builder: "trt.Builder") -> "trt.INetworkDefinition":
    """An empty network that takes its precisions from the graph, where the library can; explicit batch on 8.6."""
    flags = library.trt.NetworkDefinitionCreationFlag
    flag: Any = member(flags, "STRONGLY_TYPED" if library.strongly_typed else "EXPLICIT_BATCH")
    return builder.create_network(1 << int(flag))


def parse(library: Library, network: "trt.INetworkDefinition", model: Path, log: LineKeeper) -> "trt.OnnxParser":
    """Fill the network from a file, beside which its external data lie.

    Returns the parser, which owns the weights and must outlive the network. Raises EngineryError with what it found.
    """
    parser: trt.OnnxParser = library.trt.OnnxParser(network, log)
    if not parser.parse_from_file(str(model)):
        raise failure(log.lines, [_fault(parser.get_error(number)) for number in range(parser.num_errors)])
    return parser


def _fault(error: "trt.ParserError") -> ParserFault:
    return ParserFault(
        code=error.code().name,
        function=error.func(),
        text=error.desc(),
        operator=error.node_operator() if hasattr(error, "node_operator") else "",
        node=error.node_name() if hasattr(error, "node_name") else "",
    )
