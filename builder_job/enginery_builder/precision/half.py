"""FP16 and BF16 by casts in the graph. Called by `precision`.

A tensor keeps its name for its FP32 value; its half value, where some node reads or writes one, has a name of its own.
A cast stands wherever one is made from the other, once for each tensor. So nodes that stay in FP32, graph inputs and
outputs, and what subgraphs take from around them go on reading what they always read.

Which operators compute in half, at which of their inputs, is what ONNX's schemas say, not a list: Resize takes its
image in half and its scales in FP32, for example. Nodes that hold subgraphs stay in FP32 as a whole.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import onnx
from onnx import TensorProto, helper

from enginery_builder.backend import Array
from enginery_builder.onnx_files import graphs_below
from enginery_builder.precision.sessions import FLOAT
from enginery_builder.precision.weights import Workbench, prune

Sixteen = Literal["FP16", "BF16"]

LEAST_OPSET: dict[Sixteen, int] = {"FP16": 7, "BF16": 22}
"""Before opset 22 ONNX has no Conv, pooling or resizing in bfloat16."""

SMALLEST_HALF = 2.0**-24
"""The FP16 number next to zero. A scalar that would round to zero, such as the epsilon of a normalisation, becomes it:
what keeps a divisor from zero must go on doing so."""

_EXACT_READERS = frozenset({"Sin", "Cos", "Tan"})
"""Periodic functions, of arguments that grow with the position: of 1000 half precision keeps half a unit."""

_INTEGERS = frozenset({TensorProto.INT32, TensorProto.INT64})

_ARITHMETIC = frozenset(
    {"Abs", "Add", "Cast", "Ceil", "Clip", "Concat", "Div", "Expand", "Flatten", "Floor", "Gather", "Identity",
     "MatMul", "Max", "Min", "Mod", "Mul", "Neg", "Pow", "Range", "Reciprocal", "Reshape", "Round", "Slice", "Split",
     "Sqrt", "Squeeze", "Sub", "Tile", "Transpose", "Unsqueeze", "Where"}
)  # fmt: skip
"""What sizes, indices and positions are computed with."""


@dataclass(frozen=True)
class Places:
    """Where a node reads and writes half values: positions in its inputs and outputs."""

    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True)
class Half:
    """One of the two formats."""

    kind: Sixteen

    @property
    def onnx_type(self) -> int:
        """As protos count types."""
        return int(TensorProto.FLOAT16 if self.kind == "FP16" else TensorProto.BFLOAT16)

    @property
    def schema_type(self) -> str:
        """As schemas write types."""
        return "tensor(float16)" if self.kind == "FP16" else "tensor(bfloat16)"

    def values(self, single: Array) -> Array:
        """Rounded to the nearest; scalars never to zero."""
        kind = helper.tensor_dtype_to_np_dtype(self.onnx_type)
        if self.kind == "FP16" and single.size == 1 and 0 < abs(float(single.reshape(-1)[0])) < SMALLEST_HALF:
            single = np.copysign(np.full_like(single, SMALLEST_HALF), single)
        with np.errstate(over="ignore"):  # infinity is meant: attention masks
            return single.astype(kind)


def to_half(
    bench: Workbench, model: onnx.ModelProto, types: Mapping[str, str], kept: Collection[int], kind: Sixteen
) -> onnx.ModelProto:
    """A new model that computes in half where it can. `types` of all tensors of the main graph, as ONNX Runtime writes
    them; `kept` are positions of nodes that stay in FP32.
    """
    half = Half(kind)
    places = {
        index: found
        for index, node in enumerate(model.graph.node)
        if index not in kept and (found := places_of(node, model, types, half)) is not None
    }
    for index in exact_nodes(model, types, places):
        places.pop(index, None)
    return _Rewriter(bench, model, types, places, half).rewritten()


def places_of(node: onnx.NodeProto, model: onnx.ModelProto, types: Mapping[str, str], half: Half) -> Places | None:
    """Where the node can work in half; None when it cannot, or has no FP32 tensor."""
    names = [*filter(None, node.input), *filter(None, node.output)]
    if any(True for _ in _inner(node)) or any(not types.get(name, FLOAT).startswith("tensor(") for name in names):
        return None
    schema = _schema(node, model)
    if schema is None:
        return None
    allowed = {constraint.type_param_str: constraint.allowed_type_strs for constraint in schema.type_constraints}
    takes = {kind for kind, names in allowed.items() if half.schema_type in names}
    inputs = [
        index
        for index, name in enumerate(node.input)
        if name and types.get(name) == FLOAT and _formal(schema.inputs, index).type_str in takes
    ]
    read = {_formal(schema.inputs, index).type_str for index in inputs}
    outputs = [
        index
        for index, name in enumerate(node.output)
        if name and types.get(name) == FLOAT and (_formal(schema.outputs, index).type_str in read or _casts(node))
    ]
    return Places(tuple(inputs), tuple(outputs)) if inputs or outputs else None


def exact_nodes(model: onnx.ModelProto, types: Mapping[str, str], places: Mapping[int, Places]) -> set[int]:
    """Nodes that compute sizes, indices or angles: all they write ends in a cast to integers, in a periodic function,
    or at an input that must be FP32. In half 2049 is no number.
    """
    readers: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for index, node in enumerate(model.graph.node):
        for position, name in enumerate(node.input):
            readers[name].append((index, position))
    outputs = {value.name for value in model.graph.output}
    exact = {
        index
        for index, node in enumerate(model.graph.node)
        if node.op_type in _EXACT_READERS or (node.op_type == "Cast" and _attribute(node, "to") in _INTEGERS)
    }
    for index in reversed(range(len(model.graph.node))):
        node = model.graph.node[index]
        written = [name for name in node.output if types.get(name) == FLOAT]
        reads = [reader for name in written for reader in readers[name]]
        if (
            node.op_type in _ARITHMETIC
            and reads
            and not outputs & set(written)
            and all(
                reader in exact or (reader in places and position not in places[reader].inputs)
                for reader, position in reads
            )
        ):
            exact.add(index)
    return exact


class _Rewriter:
    """One pass over one model."""

    def __init__(
        self,
        bench: Workbench,
        model: onnx.ModelProto,
        types: Mapping[str, str],
        places: Mapping[int, Places],
        half: Half,
    ) -> None:
        self._bench = bench
        self._model = model
        self._half = half
        self._places = places
        self._names: dict[str, str] = {}
        self._taken = {*types, *(name for node in model.graph.node for name in (*node.output, node.name))}
        self._written = {
            model.graph.node[index].output[position] for index, found in places.items() for position in found.outputs
        }
        self._read_half, self._read_single = self._readers(types)

    def rewritten(self) -> onnx.ModelProto:
        made = onnx.ModelProto()
        made.CopyFrom(self._model)
        del made.graph.node[:], made.graph.value_info[:]
        for tensor in self._model.graph.initializer:
            if tensor.name in self._read_half:
                values = self._half.values(self._bench.read(tensor))
                made.graph.initializer.append(self._bench.tensor(self._half_of(tensor.name), values))
        made.graph.node.extend(self._casts_after([value.name for value in self._model.graph.input]))
        for index, node in enumerate(self._model.graph.node):
            made.graph.node.append(self._node(index, node))
            made.graph.node.extend(self._casts_after(node.output))
        prune(made)
        return made

    def _readers(self, types: Mapping[str, str]) -> tuple[set[str], set[str]]:
        """Tensors that are read in half, and in FP32."""
        half: set[str] = set()
        single = {value.name for value in self._model.graph.output}
        for index, node in enumerate(self._model.graph.node):
            positions = self._places[index].inputs if index in self._places else ()
            for position, name in enumerate(node.input):
                (half if position in positions else single).add(name)
            for graph in _inner(node):
                single |= {name for inner in graph.node for name in inner.input}
                single |= {value.name for value in graph.output}
        return half, {name for name in single if types.get(name) == FLOAT}

    def _node(self, index: int, node: onnx.NodeProto) -> onnx.NodeProto:
        made = onnx.NodeProto()
        made.CopyFrom(node)
        found = self._places.get(index, Places((), ()))
        for position in found.inputs:
            made.input[position] = self._half_of(node.input[position])
        for position in found.outputs:
            made.output[position] = self._half_of(node.output[position])
        if found.outputs and _casts(node):
            next(item for item in made.attribute if item.name == "to").i = self._half.onnx_type
        return made

    def _casts_after(self, names: Collection[str]) -> Iterator[onnx.NodeProto]:
        for name in names:
            if name in self._written and name in self._read_single:
                yield self._cast(self._half_of(name), name, TensorProto.FLOAT)
            elif name not in self._written and name in self._read_half:
                yield self._cast(name, self._half_of(name), self._half.onnx_type)

    def _cast(self, source: str, target: str, kind: int) -> onnx.NodeProto:
        return helper.make_node("Cast", [source], [target], name=self._free(f"{target}_cast"), to=kind)

    def _half_of(self, name: str) -> str:
        if name not in self._names:
            self._names[name] = self._free(f"{name}_{self._half.kind.lower()}")
        return self._names[name]

    def _free(self, name: str) -> str:
        while name in self._taken:
            name += "_"
        self._taken.add(name)
        return name


def _casts(node: onnx.NodeProto) -> bool:
    return node.op_type == "Cast" and _attribute(node, "to") == TensorProto.FLOAT


def _attribute(node: onnx.NodeProto, name: str) -> int | None:
    return next((item.i for item in node.attribute if item.name == name), None)


def _inner(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """All graphs within a node, at any depth."""
    waiting: list[onnx.GraphProto | onnx.FunctionProto] = [onnx.FunctionProto(node=[node])]
    while waiting:
        for graph in graphs_below(waiting.pop()):
            yield graph
            waiting.append(graph)


def _formal(parameters: Sequence[onnx.defs.OpSchema.FormalParameter], index: int) -> onnx.defs.OpSchema.FormalParameter:
    """The last parameter may stand for any number of inputs."""
    return parameters[min(index, len(parameters) - 1)]


def _schema(node: onnx.NodeProto, model: onnx.ModelProto) -> "onnx.defs.OpSchema | None":
    domain = "" if node.domain == "ai.onnx" else node.domain
    opset = next((entry.version for entry in model.opset_import if entry.domain in {node.domain, domain}), 1)
    try:
        return onnx.defs.get_schema(node.op_type, opset, domain)
    except onnx.defs.SchemaError:
        return None
