"""Operators that nobody has, that only some compilers have, or that they have with limits."""

import numpy as np
import onnx
from onnx import TensorProto
from support.onnx_cases.case import Maker
from support.onnx_models import FLOAT, constant, model, node, one, value, weight

V4 = (FLOAT, [1, 4])
TEXT = (TensorProto.STRING, [4])


def qlinear_add() -> onnx.ModelProto:
    """com.microsoft QLinearAdd of a tensor with itself."""
    return model(
        [node("QLinearAdd", ["x", "s", "z", "x", "s", "z", "s", "z"], ["y"], "qa", domain="com.microsoft")],
        [value("x", TensorProto.INT8, [1, 4])],
        [value("y", TensorProto.INT8, [1, 4])],
        [constant("s", 0.1, np.float32), constant("z", 0, np.int8)],
        domains=["com.microsoft"],
    )


def qlinear_conv() -> onnx.ModelProto:
    """QLinearConv of ONNX's own domain."""
    return model(
        [node("QLinearConv", ["x", "s", "z", "w", "s", "z", "s", "z"], ["y"], "qc")],
        [value("x", TensorProto.INT8, [1, 3, 8, 8])],
        [value("y", TensorProto.INT8, [1, 4, 6, 6])],
        [constant("s", 0.1, np.float32), constant("z", 0, np.int8), constant("w", np.ones((4, 3, 3, 3)), np.int8)],
    )


def antialiased_resize() -> onnx.ModelProto:
    """Half the size, linear, with antialias=1."""
    return model(
        [node("Resize", ["x", "", "sc"], ["y"], "rs", mode="linear", antialias=1)],
        [value("x", FLOAT, [1, 3, 8, 8])],
        [value("y", FLOAT, [1, 3, 4, 4])],
        [constant("sc", [1, 1, 0.5, 0.5], np.float32)],
        opset=18,
    )


def non_max_suppression() -> onnx.ModelProto:
    """Three boxes a class at most."""
    return model(
        [node("NonMaxSuppression", ["b", "s", "m"], ["y"], "nms")],
        [value("b", FLOAT, [1, 10, 4]), value("s", FLOAT, [1, 2, 10])],
        [value("y", TensorProto.INT64, ["K", 3])],
        [constant("m", [3], np.int64)],
    )


def top_k(k: int) -> onnx.ModelProto:
    """The k largest of 8000."""
    return model(
        [node("TopK", ["x", "k"], ["v", "i"], "tk")],
        [value("x", FLOAT, [1, 8000])],
        [value("v", FLOAT, [1, k]), value("i", TensorProto.INT64, [1, k])],
        [constant("k", [k], np.int64)],
    )


def training_batch_normalization() -> onnx.ModelProto:
    """BatchNormalization as exported in train()."""
    return model(
        [node("BatchNormalization", ["x", "s", "b", "m", "v"], ["y", "rm", "rv"], "bn", training_mode=1)],
        [value("x", FLOAT, [2, 3, 4, 4])],
        [value("y", FLOAT, [2, 3, 4, 4])],
        [weight(name, 3) for name in "sbmv"],
    )


def training_dropout() -> onnx.ModelProto:
    """Dropout that drops, as exported in train()."""
    return model(
        [node("Dropout", ["x", "ratio", "training"], ["y"], "drop")],
        [value("x", *V4)],
        [value("y", *V4)],
        [constant("ratio", 0.5, np.float32), constant("training", True, np.bool_)],
    )


MODELS: dict[str, Maker] = {
    "op_unknown_std": lambda: one("NotAnOp", V4, V4, "bad_node"),
    "op_custom_domain": lambda: one("MyCustomOp", V4, V4, "custom0", domain="com.acme"),
    "op_ml_domain": lambda: one("Scaler", V4, V4, "sc", domain="ai.onnx.ml", offset=[0.0], scale=[1.0]),
    "op_ms_qlinear": qlinear_add,
    "op_qlinearconv": qlinear_conv,
    "op_string_tensor": lambda: one("StringNormalizer", TEXT, TEXT, "strn"),
    "op_string_input_identity": lambda: one("Identity", TEXT, TEXT, "id"),
    "op_det": lambda: one("Det", (FLOAT, [1, 4, 4]), (FLOAT, [1]), "det"),
    "op_unique": lambda: one("Unique", (FLOAT, [8]), (FLOAT, ["M"]), "uniq"),
    "op_bitshift_u32": lambda: one(
        "BitShift",
        (TensorProto.UINT32, [4]),
        (TensorProto.UINT32, [4]),
        "bs",
        weights=[constant("k", [1] * 4, np.uint32)],
        direction="LEFT",
    ),
    "op_mod_float_nofmod": lambda: one(
        "Mod", (FLOAT, [4]), (FLOAT, [4]), "mod", weights=[constant("k", [1] * 4, np.float32)]
    ),
    "op_resize_antialias": antialiased_resize,
    "op_nms": non_max_suppression,
    "op_nonzero_dds": lambda: one("NonZero", (FLOAT, [4, 4]), (TensorProto.INT64, [2, "K"]), "nz"),
    "op_topk_big": lambda: top_k(5000),
    "op_topk_largest": lambda: top_k(3840),
    "op_bn_training": training_batch_normalization,
    "op_dropout_training": training_dropout,
}
