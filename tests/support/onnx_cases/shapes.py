"""Good models asked for with bad profiles, and shapes that never fit inside the model."""

from collections.abc import Sequence

import numpy as np
import onnx
from onnx import TensorProto
from support.onnx_cases.case import Maker
from support.onnx_models import FLOAT, constant, mlp, model, node, one, value, weight


def conv(x: Sequence[int | str], y: Sequence[int | str] | None) -> onnx.ModelProto:
    """A Conv of three channels on an input of this shape."""
    return one("Conv", (FLOAT, x), (FLOAT, y), "conv0", weights=[weight("W", 8, 3, 3, 3)])


def two_ranges() -> onnx.ModelProto:
    """A MatMul whose inner sizes are both free."""
    return model(
        [node("MatMul", ["a", "b"], ["y"], "mm")],
        [value("a", FLOAT, ["N", "K"]), value("b", FLOAT, ["K2", 4])],
        [value("y", FLOAT, ["N", 4])],
    )


def shape_as_input() -> onnx.ModelProto:
    """A Reshape to what input `shp` says."""
    return model(
        [node("Reshape", ["x", "shp"], ["y"], "rs")],
        [value("x", FLOAT, [2, 8]), value("shp", TensorProto.INT64, [2])],
        [value("y", FLOAT, ["A", "B"])],
    )


MODELS: dict[str, Maker] = {
    "prof_none": mlp,
    "prof_min_gt_opt": mlp,
    "prof_opt_gt_max": mlp,
    "prof_wrong_rank": mlp,
    "prof_wrong_static_dim": mlp,
    "prof_unknown_input": mlp,
    "prof_zero_max": mlp,
    "prof_negative": mlp,
    "prof_input_left_out": two_ranges,
    "prof_static_model_other_batch": lambda: mlp(4),
    "prof_baked_batch_reshape": lambda: one(
        "Reshape",
        (FLOAT, ["N", 64]),
        (FLOAT, [1, 8, 8]),
        "reshape_baked",
        weights=[constant("shp", [1, 8, 8], np.int64)],
    ),
    "prof_incompatible_matmul_range": two_ranges,
    "prof_shape_tensor_input": shape_as_input,
    "prof_shape_tensor_values": shape_as_input,
    "shape_mismatch_static": lambda: one(
        "MatMul", (FLOAT, [1, 63]), (FLOAT, [1, 10]), "fc", weights=[weight("W", 64, 10)]
    ),
    "shape_nhwc_into_conv": lambda: conv([1, 224, 224, 3], [1, 8, 222, 222]),
    "shape_dynamic_channel": lambda: conv(["N", "C", "H", "W"], None),
    "shape_dynamic_rank": lambda: one("Relu", (FLOAT, None), (FLOAT, None), "r"),
    "shape_nine_dims": lambda: one("Relu", (FLOAT, [1] * 9), (FLOAT, [1] * 9), "r"),
}
