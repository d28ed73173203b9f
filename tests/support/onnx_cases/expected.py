"""The table of expectations: how each case is asked for, and how `prepare` must end.

Reasons are ours. Where TensorRT builds an engine in silence that cannot work, or that nobody can have meant, the case
is refused, or prepared with a note. Limits were met with TensorRT-RTX, so that is the backend unless a row names
another.
"""

from dataclasses import dataclass
from typing import Literal

from enginery_store.manifest import InputRange, ShapeProfile
from enginery_store.reasons import Reason
from enginery_store.requests import PrecisionRef
from support.onnx_cases.case import Backend

FP32 = PrecisionRef(type="FP32")
INT8 = PrecisionRef(type="INT8", prequantized=True)
FP8 = PrecisionRef(type="FP8", prequantized=True)

INVALID, OPERATOR, SHAPES, SPEC = (
    Reason.SOURCE_INVALID,
    Reason.UNSUPPORTED_OPERATOR,
    Reason.INVALID_SHAPES,
    Reason.INVALID_SPEC,
)

Ends = tuple[list[int], list[int], list[int]]
"""min, opt, max."""


def profile(name: str = "default", **inputs: Ends) -> ShapeProfile:
    """A profile from the ends of each input."""
    ranges = [InputRange(name=key, min=low, opt=best, max=high) for key, (low, best, high) in inputs.items()]
    return ShapeProfile(name=name, inputs=ranges)


def batches(name: str, *inner: int, low: int = 1, best: int = 8, high: int = 32) -> tuple[ShapeProfile, ...]:
    """One profile of one input whose batch is free."""
    return (profile(**{name: ([low, *inner], [best, *inner], [high, *inner])}),)


ROWS = batches("x", 64)
IMAGES = batches("x", 8, 16, 16, best=4, high=16)
INDICES = batches("i", 8, best=4, high=8)
UPPER_ROWS = profile("large", x=([33, 64], [64, 64], [128, 64]))
HEADS: Ends = ([1, 4, 16, 32], [2, 4, 16, 32], [4, 4, 16, 32])


@dataclass(frozen=True)
class Expected:
    """One row."""

    verdict: Literal["accept", "warn", "reject"]
    profiles: tuple[ShapeProfile, ...] = ()
    reason: Reason | None = None
    words: tuple[str, ...] = ()
    backend: Backend = "TensorRTRTX"
    precision: PrecisionRef = FP32


def accept(
    profiles: tuple[ShapeProfile, ...] = (), precision: PrecisionRef = FP32, backend: Backend = "TensorRTRTX"
) -> Expected:
    """Prepared, without a word."""
    return Expected("accept", profiles, precision=precision, backend=backend)


def warn(*words: str, profiles: tuple[ShapeProfile, ...] = ()) -> Expected:
    """Prepared, with a note."""
    return Expected("warn", profiles, words=words)


def reject(
    reason: Reason, *words: str, profiles: tuple[ShapeProfile, ...] = (), precision: PrecisionRef = FP32
) -> Expected:
    """Refused, for good."""
    return Expected("reject", profiles, reason, words, precision=precision)


GOOD = {
    "ok_dynamic": accept(ROWS),
    "ok_static": accept(),
    "ok_fp16": accept(ROWS),
    "ok_bf16": reject(OPERATOR, "MatMul", "fc", "FP32", "BF16", profiles=ROWS),
    "ok_fp8_qdq": accept(precision=FP8),
    "ok_int8_per_channel": accept(ROWS, INT8),
    "ok_layernorm": accept(ROWS),
    "ok_gelu20": accept(ROWS),
    "ok_rmsnorm23": accept(ROWS),
    "ok_attention23": accept((profile(q=HEADS, k=HEADS, v=HEADS),)),
    "ok_loop": accept(),
    "ok_gru": accept(),
    "ok_int32_input": accept(INDICES),
    "ok_int64_input": accept(INDICES),
    "ok_uint8_input": accept(),
    "ok_bool_output": accept(),
    "ok_two_profiles": accept((*ROWS, UPPER_ROWS)),
    "ok_same_profile_twice": accept((*ROWS, ROWS[0].model_copy(update={"name": "again"}))),
    "ok_instancenorm": accept(batches("x", 4, 8, 8, best=2, high=4)),
    "ok_conv3d": accept(),
    "ok_convtranspose": accept(),
    "ok_einsum": accept(),
    "ok_scatternd": accept(),
    "ok_gridsample": accept(),
}

FILES = {
    "file_empty": reject(INVALID, "empty", "upload"),
    "file_garbage": reject(INVALID, "plain text", "sha256"),
    "file_truncated": reject(INVALID, "cut off", "20000 bytes", "sha256"),
    "file_html_error_page": reject(INVALID, "HTML", "upload the .onnx file itself"),
    "ext_ok": accept(ROWS),
    "ext_missing": reject(INVALID, "model.data", "missing", "spec.source.uri", profiles=ROWS),
    "ext_truncated": reject(INVALID, "model.data", "1000", "upload it again", profiles=ROWS),
    "ext_traversal": reject(INVALID, "../../../etc/hostname", "outside", "export", profiles=ROWS),
    "ext_absolute": reject(INVALID, "/etc/hostname", "outside", "export", profiles=ROWS),
    "ext_offset_beyond": reject(INVALID, "W1", str(1 << 40), "upload it again", profiles=ROWS),
    "ext_length_negative": reject(INVALID, "W1", "upload it again", profiles=ROWS),
    "ext_length_wrong": reject(INVALID, "W1", "8 bytes", "32768", profiles=ROWS),
    "ext_two_files": accept(ROWS),
    "ext_bystander": accept(ROWS),
}

OPERATORS = {
    "op_unknown_std": reject(OPERATOR, "NotAnOp", "bad_node", "standard operator"),
    "op_custom_domain": reject(OPERATOR, "MyCustomOp", "com.acme", "custom0", "standard ONNX operators"),
    "op_ml_domain": reject(OPERATOR, "ai.onnx.ml.Scaler", "sc", "ONNXRuntime"),
    "op_ms_qlinear": reject(OPERATOR, "com.microsoft.QLinearAdd", "qa", "QDQ"),
    "op_qlinearconv": reject(OPERATOR, "QLinearConv", "qc", "QDQ"),
    "op_string_tensor": reject(OPERATOR, "input x", "string", "outside the model"),
    "op_string_input_identity": reject(OPERATOR, "input x", "string", "outside the model"),
    "op_det": reject(OPERATOR, "Det", "det", "outside the model"),
    "op_unique": reject(OPERATOR, "Unique", "uniq", "outside the model"),
    "op_bitshift_u32": reject(OPERATOR, "input x", "UINT32", "INT64"),
    "op_mod_float_nofmod": reject(INVALID, "Mod", "mod", "fmod"),
    "op_resize_antialias": reject(OPERATOR, "Resize", "rs", "antialias=0"),
    "op_nms": reject(OPERATOR, "NonMaxSuppression", "nms", "outside the model"),
    "op_nonzero_dds": reject(OPERATOR, "NonZero", "nz", "outside the model"),
    "op_topk_big": reject(OPERATOR, "TopK", "tk", "5000", "3840"),
    "op_topk_largest": accept(),
    "op_bn_training": reject(OPERATOR, "BatchNormalization", "bn", "model.eval()"),
    "op_dropout_training": reject(OPERATOR, "Dropout", "drop", "model.eval()"),
}

DATATYPES = {
    "opset_5_old": reject(INVALID, "opset 5", "export it again", profiles=ROWS),
    "opset_26_new": accept(ROWS),
    "opset_27": accept(ROWS),
    "opset_99": reject(INVALID, "opset 99", "export it again", profiles=ROWS),
    "opset_ir_99": reject(INVALID, "IR version 99", "export it again", profiles=ROWS),
    "type_double_weights": reject(OPERATOR, "input x", "FP64", "in FP32", profiles=ROWS),
    "type_cast_to_double": reject(OPERATOR, "output y", "FP64", "in FP32"),
    "type_int64_overflow": accept(),
    "type_uint16": reject(OPERATOR, "input x", "UINT16", "INT32"),
    "type_uint8_qdq": reject(INVALID, "Q", "zero point", "ActivationSymmetric=True", precision=INT8),
    "type_int8_asym_qdq": reject(INVALID, "Q", "zero point", "ActivationSymmetric=True", precision=INT8),
    "type_qdq_zero_scale": reject(INVALID, "Q", "scale", "calibration data", precision=INT8),
    "type_qdq_dynamic_scale": accept(precision=INT8),
    "type_fp8_undeclared": reject(SPEC, "FP8", "Prequantized"),
    "type_nan_weights": reject(INVALID, "weight W", "NaN", profiles=ROWS),
    "mix_fp16_fp32_add": reject(INVALID, "mixadd", "float16"),
}

SHAPE_ROWS = {
    "prof_none": reject(SHAPES, "input x", "spec.shapes.profiles", "min, opt and max"),
    "prof_min_gt_opt": reject(SHAPES, "input x", "min 16", "opt 8", profiles=batches("x", 64, low=16)),
    "prof_opt_gt_max": reject(SHAPES, "input x", "opt 64", "max 32", profiles=batches("x", 64, best=64)),
    "prof_wrong_rank": reject(SHAPES, "2 dimensions", "gives 3", "[N, 64]", profiles=batches("x", 64, 1)),
    "prof_wrong_static_dim": reject(SHAPES, "dimension 1", "fixed to 64", "63", profiles=batches("x", 63)),
    "prof_unknown_input": reject(SHAPES, "no input xx", "inputs are x", profiles=batches("xx", 64)),
    "prof_zero_max": reject(SHAPES, "dimension 0", "start at 1", profiles=batches("x", 64, low=0, best=0, high=0)),
    "prof_negative": reject(SHAPES, "min is -1", "start at 1", profiles=batches("x", 64, low=-1)),
    "prof_input_left_out": reject(
        SHAPES, "leaves out input b", "min, opt and max", profiles=(profile(a=([1, 8], [1, 8], [1, 16])),)
    ),
    "prof_static_model_other_batch": reject(SHAPES, "fixed to 4", "1 to 32", "write 4", profiles=ROWS),
    "prof_baked_batch_reshape": reject(SHAPES, "reshape_baked", "opt shapes", "dimensions free", profiles=ROWS),
    "prof_incompatible_matmul_range": reject(
        SHAPES,
        "mm",
        "max shapes",
        "change the range",
        profiles=(profile(a=([1, 8], [1, 8], [1, 16]), b=([8, 4], [8, 4], [12, 4])),),
    ),
    "prof_shape_tensor_input": reject(SHAPES, "input shp", "its values", profiles=(profile(),)),
    "prof_shape_tensor_values": accept((profile(shp=([4, 4], [4, 4], [4, 4])),)),
    "shape_mismatch_static": reject(INVALID, "fc", "Incompatible dimensions"),
    "shape_nhwc_into_conv": reject(INVALID, "conv0", "224", "channels"),
    "shape_dynamic_channel": accept((profile(x=([1, 3, 8, 8], [1, 3, 8, 8], [4, 3, 8, 8])),)),
    "shape_dynamic_rank": reject(INVALID, "input x", "no declared shape"),
    "shape_nine_dims": reject(OPERATOR, "x", "9 dimensions", "allows 8"),
}

GRAPHS = {
    "graph_no_outputs": reject(INVALID, "no outputs"),
    "graph_no_nodes": reject(INVALID, "no operators"),
    "graph_cycle": reject(INVALID, "cycle", "n1", "n2"),
    "graph_missing_tensor": reject(INVALID, "n1", "nope", "nothing produces"),
    "graph_output_missing": reject(INVALID, "output y", "no operator"),
    "graph_unused_input": warn("input unused", "clients must send it"),
    "graph_dup_node_names": warn("nodes were called n"),
    "graph_div_by_zero": warn("dv", "constant 0"),
    "graph_if_rank_mismatch": reject(INVALID, "if0", "numbers of dimensions"),
    "mem_workspace_tiny": accept(),
    "mem_huge_tensor": reject(
        SHAPES,
        "input x",
        str(1 << 42),
        "lower max",
        profiles=(profile(x=([1, 1 << 20], [1, 1 << 20], [1 << 20, 1 << 20])),),
    ),
    "mem_huge_activation": reject(
        SHAPES,
        "outer",
        str(1 << 42),
        "lower max",
        profiles=(profile(a=([1, 1], [1, 1], [1 << 20, 1]), b=([1, 1], [1, 1], [1, 1 << 20])),),
    ),
}

BIAS = ("B1", "QuantizeBias=False", "ActivationSymmetric=True")
QUANTIZED = {
    "quant_fp32": accept(IMAGES),
    "quant_default_int8": reject(INVALID, *BIAS, profiles=IMAGES, precision=INT8),
    "quant_symmetric_only": reject(INVALID, *BIAS, profiles=IMAGES, precision=INT8),
    "quant_symmetric_per_channel": reject(INVALID, *BIAS, profiles=IMAGES, precision=INT8),
    "quant_symmetric_float_bias": accept(IMAGES, INT8),
    "quant_trt_set": accept(IMAGES, INT8),
    "quant_trt_set_int8_weights": accept(IMAGES, INT8),
    "quant_trt_set_conv_only": accept(IMAGES, INT8),
    "quant_qoperator": reject(OPERATOR, "QLinearConv", "QDQ", profiles=IMAGES, precision=INT8),
    "quant_int16_activations": reject(OPERATOR, "zero_point", "INT16", "INT8", profiles=IMAGES, precision=INT8),
    "quant_fp8": accept(IMAGES, FP8),
    "quant_fp16_keep_io": accept(IMAGES),
    "quant_fp16_pure": accept(IMAGES),
    "quant_rms_fp32": accept(ROWS),
    "quant_rms_fp16": warn("pow", "FP16", "65504", profiles=ROWS),
    "quant_rms_fp16_kept": accept(ROWS),
}

OTHER_BACKENDS = {
    "onnxruntime_without_profile": accept(backend="ONNXRuntime"),
    "onnxruntime_string_input": accept(backend="ONNXRuntime"),
    "onnxruntime_qoperator": accept(backend="ONNXRuntime", precision=INT8),
    "onnxruntime_top_k": accept(backend="ONNXRuntime"),
    "tensorrt_nonzero": accept(backend="TensorRT"),
}
"""What one backend refuses and another takes."""

EXPECTED: dict[str, Expected] = GOOD | FILES | OPERATORS | DATATYPES | SHAPE_ROWS | GRAPHS | QUANTIZED | OTHER_BACKENDS
