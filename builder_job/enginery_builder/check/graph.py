"""Is the graph wired as ONNX asks: inputs, outputs, one writer for each tensor, no cycle?"""

from collections.abc import Iterable
from graphlib import CycleError, TopologicalSorter

import onnx
from enginery_store.errors import FinalError
from enginery_store.manifest import TensorSpec
from enginery_store.reasons import Reason
from enginery_store.wording import listed, quoted

from enginery_builder.onnx_files import DATATYPES, graphs_below, real_inputs, tensor_spec


def require_structure(model: onnx.ModelProto) -> None:
    """There are nodes, inputs and outputs, each with a name of its own."""
    graph = model.graph
    for what, items in (("operators", graph.node), ("inputs", real_inputs(graph)), ("outputs", graph.output)):
        if not items:
            raise _invalid(f"the model declares no {what}; export it again")
    for what, values in (("input", graph.input), ("output", graph.output)):
        names = [value.name for value in values]
        twice = sorted({name for name in names if names.count(name) > 1 or not name})
        if twice:
            raise _invalid(
                f"the model declares {what} {listed(twice) or 'without a name'} more than once; export it again"
            )


def interface(graph: onnx.GraphProto) -> tuple[tuple[TensorSpec, ...], tuple[TensorSpec, ...]]:
    """Inputs and outputs as tensors a client can send and receive; an output without a declared shape gets none."""
    inputs = tuple(_spec("input", value) for value in real_inputs(graph))
    for value in real_inputs(graph):
        if not value.type.tensor_type.HasField("shape"):
            raise _invalid(f"input {quoted(value.name)} has no declared shape; export the model with input shapes")
        if any(
            dim.WhichOneof("value") == "dim_value" and not dim.dim_value for dim in value.type.tensor_type.shape.dim
        ):
            raise _invalid(
                f"input {quoted(value.name)} has a dimension of size 0, so no request could say anything; export the"
                " model with an example whose dimensions are at least 2"
            )
    return inputs, tuple(_spec("output", value) for value in graph.output)


def _spec(what: str, value: onnx.ValueInfoProto) -> TensorSpec:
    if value.type.WhichOneof("value") != "tensor_type":
        kind = (value.type.WhichOneof("value") or "nothing").removesuffix("_type")
        raise _invalid(
            f"{what} {quoted(value.name)} is a {kind}, not a tensor; export plain tensors (scikit-learn: zipmap=False)"
        )
    if value.type.tensor_type.elem_type not in DATATYPES:
        number = value.type.tensor_type.elem_type
        name = onnx.TensorProto.DataType.Name(number) if number in onnx.TensorProto.DataType.values() else str(number)
        raise _invalid(f"{what} {quoted(value.name)} has datatype {name}, which no client can send; add a Cast")
    return tensor_spec(value)


def require_wiring(graph: onnx.GraphProto, outer: frozenset[str] = frozenset()) -> None:
    """Every tensor has one writer, comes from somewhere, and depends on nothing that depends on it.

    `outer` holds names that a subgraph may read from around it.
    """
    given = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
    given |= {sparse.values.name for sparse in graph.sparse_initializer}
    writers = _writers(graph, given)
    known = outer | given | writers.keys()
    for node in graph.node:
        for name in node.input:
            if name and name not in known:
                raise _invalid(f"{_called(node)} reads tensor {quoted(name)}, which nothing produces; export again")
    for value in graph.output:
        if value.name not in known:
            raise _invalid(f"output {quoted(value.name)} is produced by no operator; export again")
    for inner in graphs_below(graph):
        require_wiring(inner, frozenset(known))
    _require_acyclic(graph, writers)


def _writers(graph: onnx.GraphProto, given: set[str]) -> dict[str, int]:
    writers: dict[str, int] = {}
    for index, node in enumerate(graph.node):
        for name in filter(None, node.output):
            if name in writers or name in given:
                other = _called(graph.node[writers[name]]) if name in writers else "an input or a weight"
                raise _invalid(f"tensor {quoted(name)} has two writers: {other} and {_called(node)}; export again")
            writers[name] = index
    return writers


def _require_acyclic(graph: onnx.GraphProto, writers: dict[str, int]) -> None:
    sorter: TopologicalSorter[int] = TopologicalSorter()
    for index, node in enumerate(graph.node):
        sorter.add(index, *(writers[name] for name in _read_by(node) if name in writers))
    try:
        sorter.prepare()
    except CycleError as error:
        names = dict.fromkeys(_called(graph.node[index]) for index in error.args[1])
        raise _invalid(f"the graph has a cycle through {listed(names)}; export again") from None


def _read_by(node: onnx.NodeProto) -> Iterable[str]:
    """Tensors a node reads, those that its subgraphs take from around them included."""
    yield from filter(None, node.input)
    for attribute in node.attribute:
        for graph in (*attribute.graphs, *([attribute.g] if attribute.type == onnx.AttributeProto.GRAPH else [])):
            yield from _captured(graph)


def _captured(graph: onnx.GraphProto) -> set[str]:
    own = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
    own |= {name for node in graph.node for name in node.output}
    read = {name for node in graph.node for name in _read_by(node)} | {value.name for value in graph.output}
    return read - own


def _called(node: onnx.NodeProto) -> str:
    return f"{quoted(node.op_type)} (node {quoted(node.name)})" if node.name else f"{quoted(node.op_type)} (unnamed)"


def _invalid(text: str) -> FinalError:
    return FinalError(text, reason=Reason.SOURCE_INVALID)
