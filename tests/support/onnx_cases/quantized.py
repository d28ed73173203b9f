"""What quantizers write for the toy net: Q/DQ graphs in the forms of ONNX Runtime's quantize_static, and QOperator."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from support.onnx_cases import toy_net
from support.onnx_cases.case import Maker
from support.onnx_models import constant, node

CHANNEL_AXES = {"W1": 0, "W2": 0, "W3": 1}
BIAS_SCALE = 0.001
EVERY_ACTIVATION = tuple(name for name in toy_net.SCALES if name != "y")
LAYER_INPUTS = ("x", "r1", "c2", "r2", "f")
CONV_INPUTS = ("x", "r1")


@dataclass
class Quantizer:
    """One way to quantize; `model` writes the graph."""

    activation: int = TensorProto.INT8
    """ONNX type of activations: INT8, INT16 or FLOAT8E4M3FN."""
    zero: int = 0
    quantize_bias: bool = False
    per_channel: bool = False
    weights_as_pair: bool = False
    """Weights stay float, with a Q/DQ pair; otherwise they are stored as int8, with a DQ."""
    points: tuple[str, ...] = EVERY_ACTIVATION
    """Activations with a Q/DQ pair."""
    output: bool = True
    """Whether the output has one, too."""
    layers: str = "123"
    opset: int = 17
    _initializers: list[onnx.TensorProto] = field(default_factory=list)

    def model(self) -> onnx.ModelProto:
        """The quantized net."""
        renamed = {name: _dequantized(name) for name in self.points}
        made = [item for name, tensor in toy_net.weights().items() for item in self._parameter(name, tensor, renamed)]
        for name in (*self.points, "y") if self.output else self.points:
            self._scale(name, toy_net.SCALES[name])
        made += _pair("x", "x")
        output = "y_float" if self.output else "y"
        for produced, item in toy_net.nodes(lambda name: renamed.get(name, name), y=output):
            made.append(item)
            if produced in self.points:
                made += _pair(produced, produced)
        if self.output:
            made += _pair("y_float", "y", result="y")
        return toy_net.net(made, self._initializers, opset=self.opset)

    def _parameter(self, name: str, tensor: onnx.TensorProto, renamed: dict[str, str]) -> Iterator[onnx.NodeProto]:
        if name[1] not in self.layers or (name[0] == "B" and not self.quantize_bias):
            self._initializers.append(tensor)
        elif name[0] == "B":
            yield self._bias(name, numpy_helper.to_array(tensor))
        else:
            yield from self._weight(name, tensor)
            renamed[name] = _dequantized(name)

    def _bias(self, name: str, values: np.ndarray) -> onnx.NodeProto:
        shape = values.shape if self.per_channel else ()
        self._initializers += [
            constant(f"{name}_quantized", np.round(values / BIAS_SCALE), np.int32),
            constant(f"{name}_scale", np.full(shape, BIAS_SCALE), np.float32),
            constant(f"{name}_zero_point", np.zeros(shape), np.int32),
        ]
        return _dequantize(f"{name}_quantized", name, name, 0 if self.per_channel else None)

    def _weight(self, name: str, tensor: onnx.TensorProto) -> list[onnx.NodeProto]:
        values = numpy_helper.to_array(tensor)
        axis = CHANNEL_AXES[name] if self.per_channel else None
        others = None if axis is None else tuple(other for other in range(values.ndim) if other != axis)
        largest = np.abs(values).max(others, keepdims=True) if others else np.abs(values).max()
        scales = np.asarray(largest / 127, np.float32)
        stored_as = self.activation if self.weights_as_pair else TensorProto.INT8
        self._scale(name, scales.reshape(-1) if others else scales, zero=0, kind=stored_as)
        if self.weights_as_pair:
            self._initializers.append(tensor)
            return _pair(name, name, axis)
        stored = np.clip(np.round(values / scales), -127, 127)
        self._initializers.append(constant(f"{name}_quantized", stored, np.int8))
        return [_dequantize(f"{name}_quantized", name, _dequantized(name), axis)]

    def _scale(self, name: str, scale: float | np.ndarray, zero: int | None = None, kind: int | None = None) -> None:
        shape = list(np.shape(scale))
        zeros = np.full(shape, self.zero if zero is None else zero)
        kind = kind or self.activation
        if kind == TensorProto.FLOAT8E4M3FN:
            zero_point = helper.make_tensor(f"{name}_zero_point", kind, shape, bytes(zeros.size), raw=True)
        else:
            zero_point = constant(f"{name}_zero_point", zeros, helper.tensor_dtype_to_np_dtype(kind))
        self._initializers += [constant(f"{name}_scale", scale, np.float32), zero_point]


def _dequantized(name: str) -> str:
    return f"{name}_DequantizeLinear_Output"


def _dequantize(source: str, name: str, result: str, axis: int | None) -> onnx.NodeProto:
    place = {} if axis is None else {"axis": axis}
    parameters = [f"{name}_scale", f"{name}_zero_point"]
    return node("DequantizeLinear", [source, *parameters], [result], f"{name}_DequantizeLinear", **place)


def _pair(source: str, name: str, axis: int | None = None, result: str = "") -> list[onnx.NodeProto]:
    place = {} if axis is None else {"axis": axis}
    quantized = f"{name}_QuantizeLinear_Output"
    parameters = [f"{name}_scale", f"{name}_zero_point"]
    return [
        node("QuantizeLinear", [source, *parameters], [quantized], f"{name}_QuantizeLinear", **place),
        _dequantize(quantized, name, result or _dequantized(name), axis),
    ]


def qoperator() -> onnx.ModelProto:
    """The QOperator format: every node an operator on int8, most of them of com.microsoft."""
    floats = {name: numpy_helper.to_array(tensor) for name, tensor in toy_net.weights().items()}
    initializers = [
        constant(f"{name}_quantized", np.round(values / (0.01 if name[0] == "W" else BIAS_SCALE)), kind)
        for name, values in floats.items()
        for kind in [np.int8 if name[0] == "W" else np.int32]
    ]
    zeros = {name: (scale, -6) for name, scale in toy_net.SCALES.items()} | dict.fromkeys(CHANNEL_AXES, (0.01, 0))
    for name, (scale, zero) in zeros.items():
        initializers += [constant(f"{name}_scale", scale, np.float32), constant(f"{name}_zero_point", zero, np.int8)]
    return toy_net.net(_qoperator_nodes(), initializers, domains=["com.microsoft"])


def _qoperator_nodes() -> list[onnx.NodeProto]:
    def scale(name: str) -> list[str]:
        return [f"{name}_scale", f"{name}_zero_point"]

    def tensors(*names: str) -> list[str]:
        return [part for name in names for part in (f"{name}_quantized", *scale(name))]

    own = {"domain": "com.microsoft"}
    conv = {"pads": [1, 1, 1, 1]}
    fc = ["f_quantized", *scale("p"), *tensors("W3"), "B3_quantized", *scale("b")]
    return [
        node("QuantizeLinear", ["x", *scale("x")], ["x_quantized"], "x_QuantizeLinear"),
        node("QLinearConv", [*tensors("x", "W1"), *scale("c1"), "B1_quantized"], ["c1_quantized"], "conv1_q", **conv),
        node("QLinearConv", [*tensors("c1", "W2"), *scale("c2"), "B2_quantized"], ["c2_quantized"], "conv2_q", **conv),
        node("QLinearAdd", [*tensors("c2", "c1"), *scale("a")], ["a_quantized"], "resadd_q", **own),
        node(
            "QLinearGlobalAveragePool", [*tensors("a"), *scale("p")], ["p_quantized"], "gap_q", channels_last=0, **own
        ),
        node("Flatten", ["p_quantized"], ["f_quantized"], "flat"),
        node("QGemm", fc, ["b_quantized"], "fc_q", **own),
        node("QLinearSigmoid", [*tensors("b"), *scale("y")], ["y_quantized"], "sig_q", **own),
        node("DequantizeLinear", tensors("y"), ["y"], "y_DequantizeLinear"),
    ]


def _trt(points: tuple[str, ...] = LAYER_INPUTS, **options: bool | str) -> Quantizer:
    """Symmetric, per channel, biases and operator outputs in float: what TensorRT builds."""
    return Quantizer(per_channel=True, points=points, output=False, **options)  # type: ignore[arg-type]


MODELS: dict[str, Maker] = {
    "quant_default_int8": lambda: Quantizer(zero=-6, quantize_bias=True).model(),
    "quant_symmetric_only": lambda: Quantizer(quantize_bias=True).model(),
    "quant_symmetric_per_channel": lambda: Quantizer(quantize_bias=True, per_channel=True).model(),
    "quant_symmetric_float_bias": lambda: Quantizer().model(),
    "quant_trt_set": lambda: _trt(weights_as_pair=True).model(),
    "quant_trt_set_int8_weights": lambda: _trt().model(),
    "quant_trt_set_conv_only": lambda: _trt(CONV_INPUTS, weights_as_pair=True, layers="12").model(),
    "quant_int16_activations": lambda: Quantizer(activation=TensorProto.INT16, quantize_bias=True, opset=21).model(),
    "quant_fp8": lambda: Quantizer(
        activation=TensorProto.FLOAT8E4M3FN,
        weights_as_pair=True,
        points=CONV_INPUTS,
        output=False,
        layers="12",
        opset=19,
    ).model(),
    "quant_qoperator": qoperator,
}
