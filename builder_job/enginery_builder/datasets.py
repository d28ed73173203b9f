"""Reads what tenants measure with: .npz files, one array per input by name, optionally `labels`. Called by `prepare`
and `precision` for calibration data, by `measure` for evaluation data.

Arrays count their samples in the first dimension. Where the model's inputs have a free first dimension, those inputs
are cut into batches and the others go into every run as they are; where all inputs share one fixed first dimension,
a run takes that many samples; otherwise a file is one sample and its arrays have the inputs' own
shapes. Files come from tenants: headers are judged before memory is allocated, and nothing is ever unpickled.
"""

import math
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from enginery_store.errors import FinalError
from enginery_store.manifest import ShapeProfile, TensorSpec
from enginery_store.reasons import Reason
from enginery_store.wording import listed, quoted

from enginery_builder.artifacts import FetchedFiles
from enginery_builder.backend import NUMPY_TYPES, Array, Tensors, leading_is_free
from enginery_builder.shapes import batch_of, profile_shapes
from enginery_builder.wording import library_text

LABELS = "labels"
"""Array with the right class of each sample; an input of that name is an input."""

FILE_LIMIT_BYTES = 2 * 1024**3
"""Unpacked size of one .npz file; more belongs into several files."""

DATA_LIMIT_BYTES = 8 * 1024**3
"""Stored size of all files; more is refused before it is fetched."""

DEFAULT_BATCH = 8
"""Samples of one run where no profile says more."""


@dataclass(frozen=True)
class Purpose:
    """What data are for: the words and the reasons of their faults."""

    name: str
    count_field: str
    """Field of the spec that says how many samples there must be."""
    invalid: Reason
    missing: Reason
    too_few: Reason

    def fault(self, text: str) -> FinalError:
        """The data do not fit."""
        return FinalError(f"{self.name} data: {text}", reason=self.invalid)


EVALUATION = Purpose(
    "evaluation",
    "accuracyGate.samples",
    invalid=Reason.EVALUATION_DATA_INVALID,
    missing=Reason.EVALUATION_DATA_INVALID,
    too_few=Reason.EVALUATION_DATA_INVALID,
)
"""Data of the accuracy gate."""

CALIBRATION = Purpose(
    "calibration",
    "calibration.samples",
    invalid=Reason.CALIBRATION_DATA_INVALID,
    missing=Reason.CALIBRATION_DATA_NOT_FOUND,
    too_few=Reason.TOO_FEW_SAMPLES,
)
"""Data that scales are measured on."""


@dataclass(frozen=True)
class Batch:
    """One run's worth of data."""

    feeds: Tensors
    labels: Array | None
    samples: int
    counted: frozenset[str] = frozenset()
    """Inputs whose first dimension counts samples; none where all of it is one sample."""

    @property
    def rows(self) -> Tensors:
        """The counted inputs, samples in the first dimension."""
        if self.counted:
            return {name: array for name, array in self.feeds.items() if name in self.counted}
        return {name: array[np.newaxis] for name, array in self.feeds.items()}


@dataclass(frozen=True)
class Dataset:
    """The first `most` samples of the files, in the order of their names; every `batches` reads them again."""

    files: FetchedFiles
    inputs: Sequence[TensorSpec]
    batch: int
    """Samples of one run where the first dimension is free."""
    most: int
    least: int
    """Fewer are refused."""
    purpose: Purpose = EVALUATION
    fewest: int = 1
    """Samples of one run at least where the first dimension is free: engines are built for a range. The rest of a file
    that makes no whole run is left out."""

    def batches(self) -> Iterator[Batch]:
        """Raises FinalError (the purpose's reasons) that names file and array."""
        cut = _cut(self.inputs, self.batch)
        found = 0
        for name in sorted(self.files.files):
            if found >= self.most:
                return
            try:
                arrays = _read(self.files.folder / name, name)
                total = _samples(name, arrays, self.inputs, cut)
            except _UnfitError as error:
                raise self.purpose.fault(str(error)) from None
            start = 0
            while samples := self._next(cut, total - start, self.most - found):
                yield _batch(arrays, self.inputs, cut, start, samples)
                start, found = start + samples, found + samples
        if found < self.least:
            runs = f" in whole runs of {self.fewest} or more" if self.fewest > 1 else ""
            raise FinalError(
                f"{self.purpose.name} data: the files hold {found} samples{runs}, {self.purpose.count_field} asks for"
                f" {self.least}; add data or lower it",
                reason=self.purpose.too_few,
            )

    def _next(self, cut: "_Cut", left: int, wanted: int) -> int:
        """Samples of the next run, with so many left in the file and so many wanted; 0 where there is none."""
        if wanted <= 0 or left <= 0:
            return 0
        if cut.exact:
            return cut.size
        samples = min(cut.size, left, max(wanted, self.fewest))
        if 0 < left - samples < self.fewest < wanted:  # leave enough for one more run
            samples = max(left - self.fewest, self.fewest)
        return samples if self.fewest <= samples <= left else 0


def fewest_samples(inputs: Sequence[TensorSpec], profiles: Sequence[ShapeProfile]) -> int:
    """The smallest batch of the first profile; 1 without profiles."""
    return batch_of(inputs, profile_shapes(inputs, profiles[0], "min")) if profiles else 1


def best_batch(inputs: Sequence[TensorSpec], profiles: Sequence[ShapeProfile], most: int | None = None) -> int:
    """The batch that the first profile is best at, or DEFAULT_BATCH; above `most` as near to it as the profile goes."""
    if not profiles:
        return DEFAULT_BATCH
    best = batch_of(inputs, profile_shapes(inputs, profiles[0], "opt"))
    return best if most is None else max(fewest_samples(inputs, profiles), min(best, most))


class _UnfitError(Exception):
    """What is wrong with a file, before it is known what the file is for."""


@dataclass(frozen=True)
class _Cut:
    """How arrays become runs."""

    inputs: frozenset[str]
    """Inputs whose first dimension counts samples; none: a file is one sample."""
    size: int
    exact: bool
    """Whether a run takes exactly `size` samples."""


def _cut(inputs: Sequence[TensorSpec], batch: int) -> _Cut:
    free = frozenset(spec.name for spec in inputs if leading_is_free(spec))
    if free:
        return _Cut(free, batch, exact=False)
    leading = {spec.shape[0] if spec.shape else None for spec in inputs}
    fixed = leading.pop() if len(leading) == 1 else None
    if fixed is None:
        return _Cut(frozenset(), 1, exact=True)
    return _Cut(frozenset(spec.name for spec in inputs), fixed, exact=True)


def _batch(arrays: dict[str, Array], inputs: Sequence[TensorSpec], cut: _Cut, start: int, samples: int) -> Batch:
    feeds = {
        spec.name: _as_text(
            arrays[spec.name][start : start + samples] if spec.name in cut.inputs else arrays[spec.name]
        )
        for spec in inputs
    }
    labels = arrays.get(LABELS) if LABELS not in feeds else None
    return Batch(feeds, None if labels is None else labels.reshape(-1)[start : start + samples], samples, cut.inputs)


def _samples(name: str, arrays: dict[str, Array], inputs: Sequence[TensorSpec], cut: _Cut) -> int:
    """Samples in a file whose arrays all fit."""
    known = {spec.name for spec in inputs}
    missing, unknown = sorted(known - arrays.keys()), sorted(arrays.keys() - known - {LABELS})
    if missing or unknown:
        what = f"no array for input {listed(missing)}" if missing else f"array {listed(unknown)}, which is no input"
        raise _UnfitError(f"{quoted(name)} has {what}; the model's inputs are {listed(sorted(known))}")
    counts = {_count(name, arrays[spec.name], spec, cut) for spec in inputs} - {None}
    if len(counts) > 1:
        raise _UnfitError(f"{quoted(name)}: its arrays hold different numbers of samples ({listed(map(str, counts))})")
    total = counts.pop() if counts else 1
    if total is None or (cut.exact and total % cut.size):
        raise _UnfitError(f"{quoted(name)} has {total} samples; the model takes exactly {cut.size} at a time")
    if LABELS in arrays and LABELS not in known:
        _require_labels(name, arrays[LABELS], total)
    return total


def _count(name: str, array: Array, spec: TensorSpec, cut: _Cut) -> int | None:
    """Samples that this array holds; None for one that goes into every run."""
    where = f"{quoted(name)}: array {quoted(spec.name)}"
    kind = NUMPY_TYPES.get(spec.datatype)
    if kind is None or (array.dtype != kind and not (kind.kind == "O" and array.dtype.kind in "SU")):
        raise _UnfitError(
            f"{where} is of type {array.dtype}; the input takes {kind or spec.datatype} ({spec.datatype})"
        )
    counted = spec.name in cut.inputs
    wanted = [-1, *spec.shape[1:]] if counted else spec.shape
    if array.ndim != len(wanted) or any(
        size not in {-1, found} for size, found in zip(wanted, array.shape, strict=True)
    ):
        pattern = ", ".join("N" if size == -1 else str(size) for size in wanted)
        raise _UnfitError(f"{where} has shape {list(array.shape)}; the input takes [{pattern}]")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise _UnfitError(f"{where} holds NaN or infinity; clean the data")
    return array.shape[0] if counted else None


def _require_labels(name: str, labels: Array, samples: int) -> None:
    if labels.dtype.kind not in "iu" or labels.size != samples or labels.ndim > 2:  # noqa: PLR2004 - [n] or [n, 1]
        raise _UnfitError(
            f"{quoted(name)}: labels are {labels.dtype} of shape {list(labels.shape)}; write one integer for each"
            f" of the {samples} samples"
        )


def _read(path: Path, name: str) -> dict[str, Array]:
    try:
        with zipfile.ZipFile(path) as archive:
            members = [info for info in archive.infolist() if info.filename.endswith(".npy")]
            _require_small(members, name)
            arrays = {info.filename.removesuffix(".npy"): _array(archive, info) for info in members}
    except (_UnfitError, MemoryError):
        raise
    except Exception as error:  # noqa: BLE001 - zipfile, zlib, tokenize and numpy have no common base
        raise _UnfitError(f"{quoted(name)} is not an .npz file of plain arrays ({library_text(error, 120)})") from None
    return arrays


def _require_small(members: Sequence[zipfile.ZipInfo], name: str) -> None:
    if sum(info.file_size for info in members) > FILE_LIMIT_BYTES:
        raise _UnfitError(f"{quoted(name)} unpacks to more than {FILE_LIMIT_BYTES} bytes; split it")


def _array(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Array:
    """One array, if its header promises no more than the archive holds. Raises ValueError."""
    with archive.open(info) as file:
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        try:
            shape, _, dtype = read(file)
        except MemoryError:  # Python's parser calls deep nesting so; a header has a few hundred bytes
            raise ValueError(f"{info.filename} has a header that nests too deeply") from None
        if dtype.hasobject:
            raise ValueError(f"{info.filename} holds Python objects")
        if not dtype.itemsize:  # any number of which fits into no bytes at all
            raise ValueError(f"{info.filename} holds elements without a size")
        if math.prod(shape) * dtype.itemsize != info.file_size - file.tell():
            raise ValueError(f"{info.filename} is cut off")
    with archive.open(info) as file:
        array: Array = np.lib.format.read_array(file, allow_pickle=False)
        return array


def _as_text(array: Array) -> Array:
    """As ONNX Runtime takes texts: objects, which take many times the bytes of the file, so never of a whole file."""
    return array.astype(object) if array.dtype.kind in "SU" else array
