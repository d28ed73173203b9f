"""Puts a precision into the graph: FP16 and BF16 by casts, INT8 and FP8 by Q/DQ pairs. Called by `prepare`.

What computes in which precision is then a property of the file, the same for every compiler and every device, and is
decided once for a model. The FP32 model stays beside it as the reference that engines are compared with.
"""

import logging
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from enginery_store.errors import EngineryError, FinalError
from enginery_store.layout import PREPARED_MODEL_NAME, REFERENCE_MODEL_NAME
from enginery_store.manifest import ShapeProfile
from enginery_store.reasons import Reason
from enginery_store.requests import PrecisionRef

from enginery_builder.artifacts import CheckedModel, ConvertedModel
from enginery_builder.backend import Array
from enginery_builder.onnx_files import external_fields, external_tensors, parse_model, real_inputs, tensor_spec
from enginery_builder.precision.eight import Quantized, calibrated, opset_of, prequantized
from enginery_builder.precision.originals import moved
from enginery_builder.precision.samples import (
    Samples,
    calibration_samples,
    gate_samples,
    generated_samples,
    require_telling,
    samples_of,
)
from enginery_builder.precision.sessions import Session
from enginery_builder.precision.sixteen import lowered
from enginery_builder.precision.weights import Workbench

__all__ = [
    "RULES",
    "Samples",
    "apply",
    "calibration_samples",
    "convert_file",
    "gate_samples",
    "require_telling",
    "samples_of",
]

LOG = logging.getLogger(__name__)

RULES = 1
"""Part of the key of every prepared model that is not FP32. Raised when a change here gives other models."""


def apply(
    checked: CheckedModel,
    precision: PrecisionRef,
    samples: Samples | None,
    folder: Path,
    profiles: Sequence[ShapeProfile] = (),
) -> ConvertedModel:
    """Write the prepared model, and its reference where it is another, into `folder`; the source's files move there.

    `samples` are what scales and overflow are measured on; without them FP16 looks for overflow on generated inputs
    of the profiles' shapes. Raises FinalError (InvalidSpec, SourceInvalid, ConversionFailed), EngineryError
    (CalibrationFailed, BuildOutOfMemory).
    """
    if precision.type == "FP32":
        return ConvertedModel(moved(checked, folder, PREPARED_MODEL_NAME), checked, "FP32")
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        bench = Workbench(checked.path, Path(scratch) / "bench")
        samples = samples or _generated(bench, checked, precision, profiles)
        made = _made(bench, precision, samples)
        files = bench.write(made.lowered.model, folder, PREPARED_MODEL_NAME)
    _require_loadable(files[0], precision.type)
    LOG.info("precision applied", extra={"precision": precision.type, "kept": len(made.lowered.kept_nodes)})
    return ConvertedModel(
        files,
        replace(checked, opset=opset_of(made.lowered.model)),
        precision.type,
        reference=moved(checked, folder, REFERENCE_MODEL_NAME),
        calibration=made.calibration,
        kept_nodes=made.lowered.kept_nodes,
        notes=made.lowered.notes,
        measured_on=samples.basis if samples else {},
    )


def convert_file(path: Path, precision: PrecisionRef, arrays: Mapping[str, Array], folder: Path) -> ConvertedModel:
    """The same for an FP32 model at hand and calibration samples in arrays, without a store: for benchmarks and trials.

    The model is not checked. Its files move into `folder`.
    """
    proto = parse_model(path.read_bytes())
    external = dict.fromkeys(external_fields(tensor)["location"] for tensor in external_tensors(proto))
    inputs = tuple(tensor_spec(value) for value in real_inputs(proto.graph))
    outputs = tuple(tensor_spec(value) for value in proto.graph.output)
    checked = CheckedModel(path, tuple(external), inputs, outputs, opset_of(proto))
    return apply(checked, precision, samples_of(arrays), folder)


def _generated(
    bench: Workbench, checked: CheckedModel, precision: PrecisionRef, profiles: Sequence[ShapeProfile]
) -> Samples | None:
    """What overflow in FP16 is looked for on, where no data are given."""
    if precision.type != "FP16" and not (precision.prequantized and precision.rest == "FP16"):
        return None
    return generated_samples(Session(bench.save(bench.skeleton, "generated.onnx")), checked, profiles)


def _made(bench: Workbench, precision: PrecisionRef, samples: Samples | None) -> Quantized:
    kind, half_rest = precision.type, precision.rest == "FP16"
    assert kind != "FP32"  # noqa: S101 - apply() took that way already; for the type checker
    if kind == "BF16":
        return Quantized(lowered(bench, bench.skeleton, kind, None))
    if kind != "FP16" and precision.prequantized:
        return prequantized(bench, kind, samples, half_rest=half_rest)
    if samples is None:
        raise FinalError(
            f"{kind} needs calibration data; give spec.precision.calibration, or a model that is quantized already and"
            " quantization Prequantized",
            reason=Reason.INVALID_SPEC,
        )
    if kind == "FP16":
        return Quantized(lowered(bench, bench.skeleton, kind, samples))
    return calibrated(bench, kind, samples, half_rest=half_rest)


def _require_loadable(model: Path, precision: str) -> None:
    """ONNX Runtime takes what was written: the least that any compiler needs. Its CPU has no kernels for BF16."""
    if precision == "BF16":
        return
    try:
        Session(model)
    except EngineryError as error:
        if error.reason is Reason.BUILD_OUT_OF_MEMORY:
            raise  # of this pod, not of the model
        raise FinalError(
            f"the model cannot be put into {precision}: {error.message}", reason=Reason.CONVERSION_FAILED
        ) from None
