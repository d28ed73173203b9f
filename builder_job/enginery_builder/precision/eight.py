"""The story of INT8 and FP8: placed, measured, chosen, written as Q/DQ pairs. Called by `precision`."""

from dataclasses import dataclass

import onnx
from enginery_store.errors import FinalError
from enginery_store.manifest import CalibrationRecord
from enginery_store.reasons import Reason

from enginery_builder.onnx_files import every_graph
from enginery_builder.precision.quantize import LEAST_OPSET, Eight, dequantized, plan, quantized
from enginery_builder.precision.ranges import Ranges, measure_ranges
from enginery_builder.precision.samples import Samples
from enginery_builder.precision.sessions import simplified, tensor_types
from enginery_builder.precision.sixteen import Lowered, fp16, lowered, near
from enginery_builder.precision.thresholds import Method, Trial, best, measure_histograms, thresholds
from enginery_builder.precision.weights import Workbench, with_opset

HALF_SCALES_OPSET = 19
"""Since then Q/DQ take scales in half precision."""

HELD_OUT_SHARE = 10
"""One batch in so many is kept from calibration, to compare methods on."""

HELD_OUT_MOST = 8
"""Batches for that comparison."""

_METHODS: dict[Eight, tuple[Method, ...]] = {
    "INT8": ("MinMax", "Percentile", "Entropy"),
    "FP8": ("MinMax", "Percentile"),
}
"""Tried for each format. Entropy counts the levels of INT8."""

_PAIR = frozenset({"QuantizeLinear", "DequantizeLinear"})


@dataclass(frozen=True)
class Quantized:
    """A model with Q/DQ pairs."""

    lowered: Lowered
    calibration: CalibrationRecord | None = None


def calibrated(bench: Workbench, kind: Eight, samples: Samples, *, half_rest: bool) -> Quantized:
    """Scales measured on samples; `half_rest`: what is not quantized becomes FP16.

    Raises FinalError (SourceInvalid: quantized already; ConversionFailed: nothing to quantize, opset cannot be raised),
    EngineryError (CalibrationFailed).
    """
    model = simplified(bench, with_opset(bench.skeleton, LEAST_OPSET[kind], kind))
    if has_pairs(model):
        raise FinalError(
            "the model has QuantizeLinear and DequantizeLinear nodes already; set spec.precision.quantization to"
            " Prequantized, or upload the model before quantization",
            reason=Reason.SOURCE_INVALID,
        )
    half_rest_possible = half_rest and opset_of(model) >= HALF_SCALES_OPSET
    model = near(bench, model, samples) if half_rest_possible else model
    types = tensor_types(bench, model)
    chosen = plan(model, types, kind)
    if not chosen.tensors:
        raise FinalError(
            f"the model has nothing that {kind} computes (Conv, ConvTranspose, Gemm or MatMul with constant weights);"
            " ask for FP16 or FP32",
            reason=Reason.CONVERSION_FAILED,
        )
    held = min(HELD_OUT_MOST, max(1, samples.runs // HELD_OUT_SHARE))
    seen = max(1, samples.runs - held)
    ranges = measure_ranges(bench, model, types, samples.first(seen))
    trial = Trial(bench, model, chosen, kind)
    histograms = measure_histograms(trial, ranges, lambda: samples.first(seen))
    candidates = {method: thresholds(method, histograms, ranges) for method in _METHODS[kind]}
    method = best(trial, candidates, list(samples.after(seen)) or list(samples.first(1)))
    made = quantized(bench, model, chosen, candidates[method], kind)
    record = CalibrationRecord(
        method=method, samples=samples.count, data_digest=samples.digest, distance=samples.distance
    )
    if not half_rest_possible:
        return Quantized(Lowered(made, notes=_rest_note(model) if half_rest else ()), record)
    restored = {dequantized(name): ranges.tensors[name] for name in chosen.tensors}
    wider = Ranges({**ranges.tensors, **restored}, ranges.sums)
    return Quantized(fp16(bench, made, tensor_types(bench, made), wider, samples), record)


def prequantized(bench: Workbench, kind: Eight, samples: Samples | None, *, half_rest: bool) -> Quantized:
    """A model that brings its Q/DQ pairs. Raises FinalError (SourceInvalid) for one that has none."""
    model = bench.skeleton
    if not has_pairs(model):
        raise FinalError(
            "spec.precision.quantization is Prequantized, but the model has no QuantizeLinear and DequantizeLinear"
            f" nodes; quantize it before export, or set quantization to Calibrate for {kind}",
            reason=Reason.SOURCE_INVALID,
        )
    if not half_rest:
        return Quantized(Lowered(model))
    if opset_of(model) < HALF_SCALES_OPSET:
        return Quantized(Lowered(model, notes=_rest_note(model)))
    return Quantized(lowered(bench, model, "FP16", samples))


def has_pairs(model: onnx.ModelProto) -> bool:
    """Whether the model quantizes and dequantizes."""
    return any(node.op_type in _PAIR for graph in every_graph(model) for node in graph.node)


def opset_of(model: onnx.ModelProto) -> int:
    """Of ONNX's own domain."""
    return next(int(entry.version) for entry in model.opset_import if entry.domain in {"", "ai.onnx"})


def _rest_note(model: onnx.ModelProto) -> tuple[str, ...]:
    note = (
        f"what is not quantized stays in FP32, as half-precision scales need opset {HALF_SCALES_OPSET} and the model"
        f" has {opset_of(model)}; export it with opset {HALF_SCALES_OPSET} or later for FP16"
    )
    return (note,)
