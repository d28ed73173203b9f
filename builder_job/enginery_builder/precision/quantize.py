"""INT8 and FP8 by Q/DQ pairs in the graph. Called by `precision`.

Only what compilers compute in eight bits is quantized, as TensorRT's guide to explicit quantization places it: inputs
and weights of Conv, ConvTranspose, Gemm and MatMul, and the other side of an Add behind a Conv, which the compiler
fuses into it. Everything is symmetric, weights keep their float values before their own Q/DQ pair, and biases stay
float: TensorRT refuses zero points and INT32 biases, and folds the pair by itself.

Why not onnxruntime.quantization: its per-channel Gemm with a bias raises (onnxruntime 1.32), it surrounds every
elementwise operator with pairs unless told each operator not to, and its histogram calibration holds all activations of
all samples in memory.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import onnx
from onnx import TensorProto, helper

from enginery_builder.backend import Array
from enginery_builder.precision.sessions import FLOAT
from enginery_builder.precision.weights import Workbench, prune

Eight = Literal["INT8", "FP8"]

LEAST_OPSET: dict[Eight, int] = {"INT8": 13, "FP8": 19}
"""Since opset 13 Q/DQ take an axis, since 19 they know FP8."""

SMALLEST_SCALE = 2.0**-20
"""Scales must be positive (TensorRT: "Scale coefficients must all be positive"), and still be a number in FP16; a
channel of zeros, or an input that was zero in every sample, gets this one."""

_LARGEST: dict[Eight, float] = {"INT8": 127.0, "FP8": 448.0}
"""The largest number of the format: scale = largest magnitude / this."""

_WEIGHTED = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul"})


@dataclass(frozen=True)
class Weight:
    """A weight to quantize: with one scale for each slice along `axis`, or one for all."""

    name: str
    axis: int | None

    @property
    def label(self) -> str:
        """What the names of its pair begin with: one weight may be quantized along two axes."""
        return self.name if self.axis is None else f"{self.name}_axis{self.axis}"


@dataclass(frozen=True)
class Plan:
    """What gets a pair."""

    activations: Mapping[tuple[int, int], str]
    """By position of the node, and of the input within it."""
    weights: Mapping[int, Weight]
    """By position of the node, of which they are the second input."""

    @property
    def tensors(self) -> tuple[str, ...]:
        """Activations to be measured, each once."""
        return tuple(dict.fromkeys(self.activations.values()))


def plan(model: onnx.ModelProto, types: Mapping[str, str], kind: Eight) -> Plan:
    """What to quantize in this model."""
    weights = {tensor.name: tensor for tensor in model.graph.initializer if tensor.data_type == TensorProto.FLOAT}
    activations: dict[tuple[int, int], str] = {}
    chosen: dict[int, Weight] = {}
    convolved: set[str] = set()
    for index, node in enumerate(model.graph.node):
        if node.op_type in _WEIGHTED and node.input[1] in weights and node.input[0] not in weights:
            if types.get(node.input[0]) == FLOAT:
                activations[index, 0] = node.input[0]
                axis = _axis(node, weights[node.input[1]]) if kind == "INT8" else None
                chosen[index] = Weight(node.input[1], axis)
                convolved |= set(node.output) if node.op_type == "Conv" else set()
        elif node.op_type == "Add" and not weights.keys() & set(node.input):
            sides = [position for position, name in enumerate(node.input) if name not in convolved]
            if len(sides) < len(node.input):
                position = sides[0] if sides else 1
                activations[index, position] = node.input[position]
    return Plan(activations, chosen)


def scale_of(magnitude: float, kind: Eight) -> np.float32:
    """The scale under which values up to this magnitude are kept."""
    return np.float32(max(magnitude / _LARGEST[kind], SMALLEST_SCALE))


def scale_name(tensor: str) -> str:
    """Name of the constant with the scale of a pair. Not `_scale`, which exporters call tensors of their own: of two
    constants of one name ONNX Runtime takes the last, and says nothing.
    """
    return f"{tensor}_QuantizeLinear_Scale"


def dequantized(tensor: str) -> str:
    """Name of what comes out of a tensor's pair."""
    return f"{tensor}_DequantizeLinear_Output"


def quantized(
    bench: Workbench, model: onnx.ModelProto, chosen: Plan, magnitudes: Mapping[str, float], kind: Eight
) -> onnx.ModelProto:
    """A new model with Q/DQ pairs. `magnitudes` are the largest values to keep, by activation."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    del made.graph.node[:], made.graph.value_info[:]
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    renamed = {place: dequantized(name) for place, name in chosen.activations.items()}
    pairs = {
        name: _pair(bench, made, _Scaled(name, name, np.array(scale_of(magnitudes[name], kind))), kind)
        for name in chosen.tensors
    }
    known: set[str] = set()
    for value in made.graph.input:
        made.graph.node.extend(pairs.pop(value.name, ()))
    for index, node in enumerate(model.graph.node):
        weight = chosen.weights.get(index)
        if weight is not None:
            renamed[index, 1] = dequantized(weight.label)
            if weight.label not in known:  # right before its reader: restored weights are large
                known.add(weight.label)
                scales = _weight_scales(bench.read(constants[weight.name]), weight.axis, kind)
                scaled = _Scaled(weight.label, weight.name, scales, weight.axis)
                made.graph.node.extend(_pair(bench, made, scaled, kind))
        copy = made.graph.node.add()
        copy.CopyFrom(node)
        for position in range(len(node.input)):
            copy.input[position] = renamed.get((index, position), node.input[position])
        for name in node.output:
            made.graph.node.extend(pairs.pop(name, ()))
    prune(made)
    return made


@dataclass(frozen=True)
class _Scaled:
    """A tensor and its scales."""

    label: str
    """What the names of its pair begin with."""
    source: str
    scales: Array
    axis: int | None = None


def _pair(bench: Workbench, made: onnx.ModelProto, scaled: _Scaled, kind: Eight) -> list[onnx.NodeProto]:
    """The two nodes; their constants are added to the model."""
    label, scales = scaled.label, scaled.scales.astype(np.float32)
    zero = TensorProto.INT8 if kind == "INT8" else TensorProto.FLOAT8E4M3FN
    made.graph.initializer.append(bench.tensor(scale_name(label), scales))
    made.graph.initializer.append(
        helper.make_tensor(f"{label}_QuantizeLinear_ZeroPoint", zero, list(scales.shape), bytes(scales.size), raw=True)
    )
    constants = [scale_name(label), f"{label}_QuantizeLinear_ZeroPoint"]
    attributes: dict[str, Any] = {} if scaled.axis is None else {"axis": scaled.axis}
    between = f"{label}_QuantizeLinear_Output"
    return [
        helper.make_node(
            "QuantizeLinear", [scaled.source, *constants], [between], f"{label}_QuantizeLinear", **attributes
        ),
        helper.make_node(
            "DequantizeLinear", [between, *constants], [dequantized(label)], f"{label}_DequantizeLinear", **attributes
        ),
    ]


def _axis(node: onnx.NodeProto, weight: TensorProto) -> int | None:
    """The axis of the output channels; None where a compiler takes but one scale."""
    attributes = {item.name: item.i for item in node.attribute}
    if node.op_type == "Conv":
        return 0
    if node.op_type == "ConvTranspose":
        return 1 if attributes.get("group", 1) == 1 else None
    if node.op_type == "Gemm":
        return 0 if attributes.get("transB", 0) else 1
    return 1 if len(weight.dims) == 2 else None  # noqa: PLR2004 - a matrix; stacks of them share one scale


def _weight_scales(values: Array, axis: int | None, kind: Eight) -> Array:
    others = None if axis is None else tuple(other for other in range(values.ndim) if other != axis)
    magnitudes = np.abs(values).max(axis=others)
    return np.asarray(np.maximum(magnitudes / _LARGEST[kind], SMALLEST_SCALE), np.float32)
