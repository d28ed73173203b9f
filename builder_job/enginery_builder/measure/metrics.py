"""The accuracy metrics, exactly. Called by `measure.accuracy`; pure.

Let r be the outputs of the FP32 reference and m those of the engine, for n samples. Top1 and Top5 look at the first
output, which holds [samples, classes]; the others at all numeric outputs, a sample's outputs laid end to end.

    Top1, Top5         share of samples whose label is among the 1 or 5 largest scores (of equal scores the lower
                       class counts as larger). Without labels the reference's own largest class is the label.
                       reference = share(r), measured = share(m), degradation = max(0, reference - measured).
    CosineSimilarity   mean over samples of r·m / (|r| |m|); 1 where both are zero, 0 where one is.
                       reference = 1, degradation = max(0, 1 - measured).
    MaxAbsError        largest |r - m| of any element.   reference = 0, degradation = measured.
    MeanAbsError       mean |r - m| over all elements.   reference = 0, degradation = measured.
"""

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from enginery_store.errors import FinalError
from enginery_store.manifest import AccuracyRecord
from enginery_store.reasons import Reason
from enginery_store.wording import quoted

from enginery_builder.backend import Array, Tensors

Metric = Literal["Top1", "Top5", "CosineSimilarity", "MaxAbsError", "MeanAbsError"]

_TOP = {"Top1": 1, "Top5": 5}

WIDE = 0.01
"""Half precision keeps three decimal digits, bfloat16 two: an output that varies less may come out constant."""


def top_hits(scores: Array, labels: Array, count: int) -> int:
    """How many of `labels` [n] are among the `count` largest of `scores` [n, classes]."""
    best = np.argsort(-scores, axis=1, kind="stable")[:, :count]
    return int((best == labels[:, None]).any(axis=1).sum())


@dataclass(frozen=True)
class Span:
    """Smallest and largest value seen."""

    lowest: float = float("inf")
    highest: float = float("-inf")

    def with_values(self, values: Array) -> "Span":
        """The span of these values too."""
        return Span(
            min(self.lowest, float(values.min(initial=np.inf))), max(self.highest, float(values.max(initial=-np.inf)))
        )

    @property
    def is_point(self) -> bool:
        """All values are one."""
        return self.lowest == self.highest

    @property
    def is_wide(self) -> bool:
        """Values differ by more than rounding to half precision could hide."""
        return self.highest - self.lowest > WIDE * max(abs(self.lowest), abs(self.highest))


@dataclass
class Tally:
    """Sums over batches, so that no more than one batch is in memory."""

    metric: Metric
    samples: int = 0
    reference_hits: int = 0
    measured_hits: int = 0
    cosine_sum: float = 0.0
    error_sum: float = 0.0
    error_max: float = 0.0
    elements: int = 0
    spans: dict[str, tuple[Span, Span]] = field(default_factory=dict)
    """By output: what its values span in the reference, and in the engine."""

    def add(self, reference: Tensors, measured: Tensors, labels: Array | None, samples: int) -> None:
        """Count one batch. Raises FinalError (EvaluationFailed, EvaluationDataInvalid)."""
        wanted, found = _numeric(reference), _numeric(measured)
        if not wanted:
            raise FinalError("the model has no numeric output to compare", reason=Reason.EVALUATION_FAILED)
        _require_comparable(wanted, found)
        if self.metric in _TOP:
            self._add_top(next(iter(reference.values())), next(iter(measured.values())), labels)
        self._add_errors(_rows(wanted, samples), _rows(found, samples))
        for name, values in wanted.items():
            spans = self.spans.get(name, (Span(), Span()))
            self.spans[name] = spans[0].with_values(values), spans[1].with_values(found[name])
        self.samples += samples

    def _add_top(self, wanted: Array, found: Array, labels: Array | None) -> None:
        if wanted.ndim != 2 or wanted.dtype.kind not in "fiu":  # noqa: PLR2004 - samples and classes
            raise _data_invalid(
                f"{self.metric} needs a first output of [samples, classes], it has shape {list(wanted.shape)}; use"
                " CosineSimilarity or MaxAbsError"
            )
        classes = wanted.shape[1]
        if labels is None:
            labels = np.argmax(wanted, axis=1)
        if labels.size and (labels.min() < 0 or labels.max() >= classes):
            raise _data_invalid(f"labels reach from {labels.min()} to {labels.max()}; the model has {classes} classes")
        self.reference_hits += top_hits(wanted.astype(np.float64), labels, _TOP[self.metric])
        self.measured_hits += top_hits(found.astype(np.float64), labels, _TOP[self.metric])

    def _add_errors(self, wanted: Array, found: Array) -> None:
        errors = np.abs(wanted - found)
        self.error_sum += float(errors.sum())
        self.error_max = max(self.error_max, float(errors.max(initial=0.0)))
        self.elements += errors.size
        lengths = np.linalg.norm(wanted, axis=1), np.linalg.norm(found, axis=1)
        product = lengths[0] * lengths[1]
        both_zero = (lengths[0] == 0) & (lengths[1] == 0)
        dots = np.einsum("ij,ij->i", wanted, found)
        cosine = np.where(both_zero, 1.0, np.divide(dots, product, out=np.zeros_like(dots), where=product > 0))
        self.cosine_sum += float(cosine.sum())

    def require_alive(self) -> None:
        """No output of the engine is constant where the reference's varies: so overflow and dead scales show, which
        seldom lead to NaN (x / inf is 0). Raises FinalError (EvaluationFailed) that names the output.
        """
        for name, (reference, engine) in self.spans.items():
            if engine.is_point and reference.is_wide:
                raise _failed(
                    f"output {quoted(name)} of the engine is {engine.lowest:g} throughout, where the reference's goes"
                    f" from {reference.lowest:g} to {reference.highest:g}; use a wider precision (BF16 or FP32), or"
                    " calibration data nearer to the real inputs"
                )

    @property
    def constant(self) -> float | None:
        """The one value of all outputs of the engine, if there is but one."""
        values = {value for _, engine in self.spans.values() for value in (engine.lowest, engine.highest)}
        return values.pop() if len(values) == 1 else None

    def record(self, data_digest: str) -> AccuracyRecord:
        """The figures as decimal strings."""
        reference, measured = self._figures()
        worse = reference - measured if self.metric in {*_TOP, "CosineSimilarity"} else measured - reference
        digits = 4 if self.metric in _TOP else 9
        return AccuracyRecord(
            metric=self.metric,
            reference=f"{reference:.{digits}f}",
            measured=f"{measured:.{digits}f}",
            degradation=f"{max(0.0, worse):.{digits}f}",
            samples=self.samples,
            data_digest=data_digest,
        )

    def _figures(self) -> tuple[float, float]:
        count = max(1, self.samples)
        if self.metric in _TOP:
            return self.reference_hits / count, self.measured_hits / count
        if self.metric == "CosineSimilarity":
            return 1.0, self.cosine_sum / count
        return 0.0, self.error_max if self.metric == "MaxAbsError" else self.error_sum / max(1, self.elements)


def _numeric(outputs: Tensors) -> dict[str, Array]:
    return {name: array for name, array in outputs.items() if array.dtype.kind in "fiub"}


def comparable(outputs: Tensors) -> bool:
    """Whether there are numeric outputs, all of them finite."""
    numbers = _numeric(outputs).values()
    return bool(numbers) and all(array.dtype.kind != "f" or bool(np.isfinite(array).all()) for array in numbers)


def same_shapes(reference: Tensors, measured: Tensors) -> bool:
    """Whether both hold the same outputs of the same shapes."""
    return all(name in measured and measured[name].shape == array.shape for name, array in reference.items())


def _rows(outputs: dict[str, Array], samples: int) -> Array:
    """[samples, elements] in double precision; one row for all where an output is not counted by samples."""
    by_sample = all(array.ndim and array.shape[0] == samples for array in outputs.values())
    rows = samples if by_sample else 1
    return np.concatenate([array.astype(np.float64).reshape(rows, -1) for array in outputs.values()], axis=1)


def _require_comparable(wanted: dict[str, Array], found: dict[str, Array]) -> None:
    for name, array in wanted.items():
        other = found.get(name)
        if other is None or other.shape != array.shape:
            shape = "absent" if other is None else list(other.shape)
            raise _failed(
                f"output {quoted(name)} has shape {list(array.shape)} in the reference, in the engine {shape}"
            )
        for who, values in (("the reference", array), ("the engine", other)):
            if values.dtype.kind == "f" and not np.isfinite(values).all():
                raise _failed(f"output {quoted(name)} of {who} holds NaN or infinity")


def _failed(text: str) -> FinalError:
    return FinalError(text, reason=Reason.EVALUATION_FAILED)


def _data_invalid(text: str) -> FinalError:
    return FinalError(text, reason=Reason.EVALUATION_DATA_INVALID)
