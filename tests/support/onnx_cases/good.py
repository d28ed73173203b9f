"""Models that every compiler takes: operators old and new, datatypes, control flow, and weights in a second file."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from support.onnx_cases.case import Maker
from support.onnx_models import FLOAT, constant, mlp, model, node, one, value, weight

ROW = (FLOAT, ["N", 64])
IMAGE = (FLOAT, ["N", 4, 8, 8])


def linear() -> onnx.ModelProto:
    """One MatMul, 64 to 10."""
    return model(
        [node("MatMul", ["x", "W"], ["y"], "fc")],
        [value("x", *ROW)],
        [value("y", FLOAT, ["N", 10])],
        [weight("W", 64, 10)],
    )


def mlp_of(kind: int, dtype: type[np.floating]) -> onnx.ModelProto:
    """The plain good model in another floating-point type."""
    return model(
        [
            node("MatMul", ["x", "W1"], ["h"], "fc1"),
            node("Relu", ["h"], ["r"], "act"),
            node("MatMul", ["r", "W2"], ["y"], "fc2"),
        ],
        [value("x", kind, ["N", 64])],
        [value("y", kind, ["N", 10])],
        [weight("W1", 64, 128, dtype=dtype), weight("W2", 128, 10, dtype=dtype)],
    )


def bfloat16() -> onnx.ModelProto:
    """One MatMul. numpy has no bfloat16: its bits are the upper half of a float's."""
    floats = numpy_helper.to_array(weight("W", 64, 32))
    bits = (floats.view(np.uint32) >> 16).astype(np.uint16)
    return model(
        [node("MatMul", ["x", "W"], ["y"], "fc")],
        [value("x", TensorProto.BFLOAT16, ["N", 64])],
        [value("y", TensorProto.BFLOAT16, ["N", 32])],
        [helper.make_tensor("W", TensorProto.BFLOAT16, [64, 32], bits.tobytes(), raw=True)],
        opset=22,
        ir=10,
    )


def fp8_pair() -> onnx.ModelProto:
    """One Q/DQ pair in FP8 (E4M3)."""
    return model(
        [node("QuantizeLinear", ["x", "s", "z"], ["q"], "Q"), node("DequantizeLinear", ["q", "s", "z"], ["y"], "DQ")],
        [value("x", FLOAT, [16, 16])],
        [value("y", FLOAT, [16, 16])],
        [constant("s", 0.1, np.float32), helper.make_tensor("z", TensorProto.FLOAT8E4M3FN, [], b"\0", raw=True)],
        opset=19,
        ir=9,
    )


def int8_per_channel() -> onnx.ModelProto:
    """A symmetric Q/DQ MatMul: int8 weights, one scale a column."""
    floats = numpy_helper.to_array(weight("W", 64, 32))
    scales = (np.abs(floats).max(0) / 127).astype(np.float32)
    quantized = np.clip(np.round(floats / scales), -127, 127).astype(np.int8)
    return model(
        [
            node("QuantizeLinear", ["x", "xs", "xz"], ["xq"], "x_Q"),
            node("DequantizeLinear", ["xq", "xs", "xz"], ["xd"], "x_DQ"),
            node("DequantizeLinear", ["Wq", "ws", "wz"], ["wd"], "w_DQ", axis=1),
            node("MatMul", ["xd", "wd"], ["y"], "fc"),
        ],
        [value("x", *ROW)],
        [value("y", FLOAT, ["N", 32])],
        [
            constant("xs", 0.05, np.float32),
            constant("xz", 0, np.int8),
            constant("Wq", quantized, np.int8),
            constant("ws", scales, np.float32),
            constant("wz", [0] * 32, np.int8),
        ],
    )


def attention() -> onnx.ModelProto:
    """Attention of opset 23 in half precision, three dynamic inputs."""
    heads = (TensorProto.FLOAT16, ["N", 4, 16, 32])
    return model(
        [node("Attention", ["q", "k", "v"], ["y"], "att")],
        [value(name, *heads) for name in "qkv"],
        [value("y", *heads)],
        opset=23,
        ir=11,
    )


def loop() -> onnx.ModelProto:
    """A Loop of five rounds."""
    body = helper.make_graph(
        [node("Add", ["acc", "one"], ["acc2"]), node("Identity", ["c"], ["c2"])],
        "body",
        [value("i", TensorProto.INT64, []), value("c", TensorProto.BOOL, []), value("acc", FLOAT, [1])],
        [value("c2", TensorProto.BOOL, []), value("acc2", FLOAT, [1])],
        [constant("one", [1], np.float32)],
    )
    return model(
        [node("Loop", ["n", "t", "a"], ["y"], "loop", body=body)],
        [value("a", FLOAT, [1])],
        [value("y", FLOAT, [1])],
        [constant("n", 5, np.int64), constant("t", True, np.bool_)],
    )


def gru() -> onnx.ModelProto:
    """A GRU whose second output is left out."""
    return model(
        [node("GRU", ["x", "W", "R"], ["y", ""], "gru", hidden_size=8)],
        [value("x", FLOAT, [5, 1, 4])],
        [value("y", FLOAT, [5, 1, 1, 8])],
        [weight("W", 1, 24, 4), weight("R", 1, 24, 8)],
    )


def embedding(index: int) -> onnx.ModelProto:
    """Rows of a table of 100, by indices of this type."""
    return model(
        [node("Gather", ["E", "i"], ["y"], "emb")],
        [value("i", index, ["N", 8])],
        [value("y", FLOAT, ["N", 8, 16])],
        [weight("E", 100, 16)],
    )


def einsum() -> onnx.ModelProto:
    """A batched MatMul as Einsum."""
    return model(
        [node("Einsum", ["a", "b"], ["y"], "ein", equation="bij,bjk->bik")],
        [value("a", FLOAT, [2, 3, 4]), value("b", FLOAT, [2, 4, 5])],
        [value("y", FLOAT, [2, 3, 5])],
    )


def scatter() -> onnx.ModelProto:
    """ScatterND with constant indices."""
    return model(
        [node("ScatterND", ["x", "i", "u"], ["y"], "snd")],
        [value("x", FLOAT, [8]), value("u", FLOAT, [2])],
        [value("y", FLOAT, [8])],
        [constant("i", [[1], [3]], np.int64)],
    )


def grid_sample() -> onnx.ModelProto:
    """GridSample on a small image."""
    return model(
        [node("GridSample", ["x", "g"], ["y"], "gs")],
        [value("x", FLOAT, [1, 2, 8, 8]), value("g", FLOAT, [1, 4, 4, 2])],
        [value("y", FLOAT, [1, 2, 4, 4])],
    )


MODELS: dict[str, Maker] = {
    "ok_dynamic": mlp,
    "ok_static": lambda: mlp(4),
    "ok_fp16": lambda: mlp_of(TensorProto.FLOAT16, np.float16),
    "ok_bf16": bfloat16,
    "ok_fp8_qdq": fp8_pair,
    "ok_int8_per_channel": int8_per_channel,
    "ok_layernorm": lambda: one(
        "LayerNormalization", ROW, ROW, "ln", weights=[weight("s", 64), weight("b", 64)], axis=-1
    ),
    "ok_gelu20": lambda: one("Gelu", ROW, ROW, "g", opset=20),
    "ok_rmsnorm23": lambda: one("RMSNormalization", ROW, ROW, "r", weights=[weight("s", 64)], opset=23, axis=-1),
    "ok_attention23": attention,
    "ok_loop": loop,
    "ok_gru": gru,
    "ok_int32_input": lambda: embedding(TensorProto.INT32),
    "ok_int64_input": lambda: embedding(TensorProto.INT64),
    "ok_uint8_input": lambda: one("Cast", (TensorProto.UINT8, [1, 4]), (FLOAT, [1, 4]), "c", to=FLOAT),
    "ok_bool_output": lambda: one(
        "Greater", (FLOAT, [4]), (TensorProto.BOOL, [4]), "gt", weights=[constant("z", [0] * 4, np.float32)]
    ),
    "ok_two_profiles": linear,
    "ok_same_profile_twice": linear,
    "ok_instancenorm": lambda: one(
        "InstanceNormalization", IMAGE, IMAGE, "inn", weights=[weight("s", 4), weight("b", 4)]
    ),
    "ok_conv3d": lambda: one(
        "Conv", (FLOAT, [1, 2, 8, 8, 8]), (FLOAT, [1, 4, 6, 6, 6]), "c3", weights=[weight("W", 4, 2, 3, 3, 3)]
    ),
    "ok_convtranspose": lambda: one(
        "ConvTranspose",
        (FLOAT, [1, 4, 8, 8]),
        (FLOAT, [1, 2, 17, 17]),
        "ct",
        weights=[weight("W", 4, 2, 3, 3)],
        strides=[2, 2],
    ),
    "ok_einsum": einsum,
    "ok_scatternd": scatter,
    "ok_gridsample": grid_sample,
}
