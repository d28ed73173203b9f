"""How much of an activation eight bits shall span: all of it, or all but its outliers. Called by `precision`.

    MinMax       the largest magnitude seen
    Percentile   what PERCENTILE per cent of the magnitudes do not exceed
    Entropy      the cut after which the quantized histogram resembles the full one most (least Kullback-Leibler
                 divergence, as TensorRT 8's own calibrator chose)

No rule says which is best for a model, so all three are tried on samples that none of them saw, and the one whose
outputs lie nearest to FP32 is kept.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
import onnx
from enginery_store.errors import FinalError
from enginery_store.reasons import Reason

from enginery_builder.backend import Array, Tensors
from enginery_builder.precision.quantize import Eight, Plan, quantized, scale_name, scale_of
from enginery_builder.precision.ranges import Ranges
from enginery_builder.precision.sessions import Session
from enginery_builder.precision.weights import Workbench

LOG = logging.getLogger(__name__)

Method = Literal["MinMax", "Entropy", "Percentile"]

PERCENTILE = 99.99
"""ONNX Runtime's and pytorch-quantization's usual choice."""

BINS = 2048
"""Bins of a histogram between zero and the largest magnitude, as in TensorRT's calibrator."""

LEVELS = 128
"""What a magnitude can be in INT8: 0 to 127."""

_STEP = 16
"""Bins between two cuts that are tried for Entropy."""

_LEAST_SHARE = 1e-4
"""Count of a step that only clipped values fell into: a logarithm takes no zero. ONNX Runtime's value."""

_HELD_BYTES = 1 << 30
"""Memory for the activations of one run; a model with more fills its histograms in turns."""

_COUNTED_VALUES = 1 << 20
"""Values of an activation that enter its histogram from one batch; more say nothing new, and counting takes longer
than computing them.
"""

Histograms = dict[str, npt.NDArray[np.int64]]
Batches = Callable[[], Iterable[Tensors]]


@dataclass(frozen=True)
class Trial:
    """A model that is to be quantized."""

    bench: Workbench
    model: onnx.ModelProto
    plan: Plan
    kind: Eight


def measure_histograms(trial: Trial, ranges: Ranges, batches: Batches) -> Histograms:
    """Histograms of magnitudes. With more activations than fit into memory the tensors are taken in groups, each from
    every n-th batch, so that the time stays that of one pass. Raises EngineryError (CalibrationFailed).
    """
    found = {name: np.zeros(BINS, np.int64) for name in trial.plan.tensors}
    groups = _groups(trial.plan.tensors, ranges)
    inputs = {value.name for value in trial.model.graph.input}
    for turn, group in enumerate(groups):
        watched = onnx.ModelProto()
        watched.CopyFrom(trial.model)
        del watched.graph.output[:]
        watched.graph.output.extend(onnx.ValueInfoProto(name=name) for name in group if name not in inputs)
        inner = [name for name in group if name not in inputs]
        session = Session(trial.bench.save(watched, "histograms.onnx")) if inner else None
        for feeds in islice(batches(), turn, None, len(groups)):
            values = dict(zip(inner, session.run(inner, feeds), strict=True)) if session else {}
            for name in group:
                found[name] += _histogram(values[name] if name in values else feeds[name], ranges.tensors[name])
    LOG.info("histograms measured", extra={"tensors": len(found), "groups": len(groups)})
    return found


def thresholds(method: Method, histograms: Histograms, ranges: Ranges) -> dict[str, float]:
    """The largest magnitude to keep, by tensor."""
    if method == "MinMax":
        return {name: ranges.tensors[name] for name in histograms}
    cut = _percentile if method == "Percentile" else _least_divergence
    return {name: cut(counts) / BINS * ranges.tensors[name] for name, counts in histograms.items()}


def best(trial: Trial, candidates: Mapping[Method, Mapping[str, float]], held_out: Sequence[Tensors]) -> Method:
    """The method with the least relative error of the outputs; of equals the first.

    Scales are inputs of the trial model, so that it is loaded once. Raises EngineryError (CalibrationFailed).
    """
    bench, kind = trial.bench, trial.kind
    names = [value.name for value in trial.model.graph.output]
    wanted = _outputs(bench.save(trial.model, "wanted.onnx"), names, held_out)
    made = quantized(bench, trial.model, trial.plan, next(iter(candidates.values())), kind)
    for name in trial.plan.tensors:
        made.graph.input.append(onnx.helper.make_tensor_value_info(scale_name(name), onnx.TensorProto.FLOAT, []))
    session = Session(bench.save(made, "trial.onnx"))
    errors: dict[Method, float] = dict.fromkeys(candidates, 0.0)
    for feeds, outputs in zip(held_out, wanted, strict=True):
        for method, magnitudes in candidates.items():
            scales = {scale_name(name): np.array(scale_of(value, kind)) for name, value in magnitudes.items()}
            errors[method] += _error(outputs, session.run(names, {**feeds, **scales}))
    LOG.info("calibration methods compared", extra={"relative_errors": errors, "batches": len(held_out)})
    if not any(np.isfinite(error) for error in errors.values()):
        raise FinalError(
            f"no {kind} model made from the calibration data gives finite outputs; use FP16, or better data",
            reason=Reason.CALIBRATION_FAILED,
        )
    return min(errors, key=lambda method: errors[method] if np.isfinite(errors[method]) else np.inf)


def _outputs(model: Path, names: list[str], inputs: Sequence[Tensors]) -> list[list[Array]]:
    """Of a session that is gone afterwards: two in memory would hold the weights twice."""
    session = Session(model)
    return [session.run(names, feeds) for feeds in inputs]


def _groups(tensors: Sequence[str], ranges: Ranges) -> list[list[str]]:
    groups: list[list[str]] = [[]]
    room = _HELD_BYTES
    for name in tensors:
        size = 4 * ranges.elements.get(name, 0)
        if size > room and groups[-1]:
            groups.append([])
            room = _HELD_BYTES
        groups[-1].append(name)
        room -= size
    return groups


def _histogram(values: Array, largest: float) -> npt.NDArray[np.int64]:
    if largest <= 0:
        return np.zeros(BINS, np.int64)
    step = values.size // _COUNTED_VALUES | 1  # odd, so that it visits every channel of a power of two
    seen = values.reshape(-1)[::step]
    seen = seen[np.isfinite(seen)]  # as in `ranges`: a mask of -inf is no magnitude, and NaN has no bin
    places = np.minimum(np.abs(seen) * np.float32(BINS / largest), BINS - 1).astype(np.int64)
    return np.bincount(places, minlength=BINS)


def _percentile(counts: npt.NDArray[np.int64]) -> int:
    """Bins to keep."""
    total = counts.sum()
    return int(np.searchsorted(np.cumsum(counts), total * PERCENTILE / 100)) + 1 if total else BINS


def _least_divergence(counts: npt.NDArray[np.int64]) -> int:
    """Bins to keep."""
    cuts = range(LEVELS, BINS + 1, _STEP)
    return min(cuts, key=lambda cut: _divergence(counts.astype(np.float64), cut)) if counts.sum() else BINS


def _divergence(counts: npt.NDArray[np.float64], cut: int) -> float:
    """Of the histogram, clipped after `cut` bins, from the same in LEVELS steps; bins that were empty stay empty."""
    clipped = counts[:cut].copy()
    clipped[-1] += counts[cut:].sum()
    filled = clipped > 0
    steps = np.arange(cut) * LEVELS // cut
    share = np.bincount(steps, weights=counts[:cut]) / np.maximum(np.bincount(steps, weights=filled), 1)
    coarse = np.maximum(share[steps][filled], _LEAST_SHARE)
    real = clipped[filled] / clipped.sum()
    return float((real * np.log(real / (coarse / coarse.sum()))).sum())


def _error(wanted: Sequence[Array], found: Sequence[Array]) -> float:
    """Sum over numeric outputs of |difference|^2 / |wanted|^2; infinite for an output that is not finite."""
    total = 0.0
    for one, other in zip(wanted, found, strict=True):
        if one.dtype.kind != "f" or one.shape != other.shape:
            continue
        real = np.isfinite(one)
        if not np.isfinite(other[real]).all():
            return float("inf")
        power = float(np.square(one[real], dtype=np.float64).sum())
        total += float(np.square(one[real] - other[real], dtype=np.float64).sum()) / (power or 1.0)
    return total
