"""The inputs that activations are measured on: a tenant's files, arrays in hand, or generated ones. Called by
`prepare` and `precision`.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
from enginery_store.errors import EngineryError
from enginery_store.manifest import ShapeProfile, TensorSpec
from enginery_store.requests import OVERFLOW_SAMPLES

from enginery_builder.artifacts import CheckedModel, FetchedFiles
from enginery_builder.backend import Array, Tensors
from enginery_builder.datasets import CALIBRATION, EVALUATION, Dataset, Purpose, best_batch
from enginery_builder.precision.distance import FARTHEST, Sketch, distance
from enginery_builder.precision.sessions import Session
from enginery_builder.samples import attempts, sizes_of
from enginery_builder.shapes import GUESSES, free_shapes, profile_shapes, with_batch

CALIBRATION_BATCH = 8
"""Samples of one calibration run, if the profile allows: activations of more would take gigabytes."""

COMPARED_SAMPLES = 1000
"""Evaluation samples that calibration data are compared with."""

_GENERATED_RUNS = 4


@dataclass(frozen=True)
class Samples:
    """Inputs to run with, read again by every `batches()`."""

    batches: Callable[[], Iterable[Tensors]]
    runs: int
    """Batches."""
    count: int
    """Samples in all of them."""
    digest: str = ""
    """Of the files they were read from, or of their values."""
    distance: str = ""
    """From evaluation data, as CalibrationRecord holds it."""
    generated: bool = False
    batch: int = 0
    """Samples of one run at most; of generated ones the digest tells."""

    @property
    def basis(self) -> dict[str, str | int]:
        """All that decides what is measured on them."""
        return {"samples": self.count, "data": self.digest, "batch": self.batch}

    def first(self, runs: int) -> Iterator[Tensors]:
        """The first so many batches."""
        return islice(self.batches(), runs)

    def after(self, runs: int) -> Iterator[Tensors]:
        """The batches behind them."""
        return islice(self.batches(), runs, None)


def calibration_samples(
    calibration: FetchedFiles,
    evaluation: FetchedFiles | None,
    inputs: Sequence[TensorSpec],
    profiles: Sequence[ShapeProfile],
    count: int,
) -> Samples:
    """Calibration data that say something about the model's real inputs.

    Raises FinalError: TooFewSamples, CalibrationDataInvalid (what does not fit, is constant, or is far from the
    evaluation data, with both figures), EvaluationDataInvalid.
    """
    batch = best_batch(inputs, profiles, CALIBRATION_BATCH)
    data = Dataset(calibration, inputs, batch, most=count, least=count, purpose=CALIBRATION)
    sketch = Sketch()
    runs, found = _read(data, sketch)
    if evaluation is None:
        return Samples(lambda: _feeds(data), runs, found, calibration.digest, batch=batch)
    compared = Dataset(evaluation, inputs, batch, most=COMPARED_SAMPLES, least=1)
    other = Sketch()
    _read(compared, other)
    apart = distance(sketch, other)
    if apart > FARTHEST:
        raise CALIBRATION.fault(
            f"they lie {apart:.3f} from the evaluation data, where 0 is the same distribution and more than {FARTHEST}"
            " is refused: they look like noise, or are prepared in another way; take samples of the inputs that the"
            " model will serve"
        )
    return Samples(lambda: _feeds(data), runs, found, calibration.digest, f"{apart:.3f}", batch=batch)


def gate_samples(
    evaluation: FetchedFiles, inputs: Sequence[TensorSpec], profiles: Sequence[ShapeProfile], count: int
) -> Samples:
    """The gate's data, to look for overflow on. Raises FinalError (EvaluationDataInvalid)."""
    batch = best_batch(inputs, profiles, CALIBRATION_BATCH)
    data = Dataset(evaluation, inputs, batch, most=min(count, OVERFLOW_SAMPLES), least=1, purpose=EVALUATION)
    found = [run.samples for run in data.batches()]
    return Samples(lambda: _feeds(data), len(found), sum(found), evaluation.digest, batch=batch)


def require_telling(data: Dataset) -> None:
    """Read all of it. Raises FinalError (the purpose's reasons) for what does not fit the model, or says nothing."""
    _read(data)


def samples_of(arrays: Mapping[str, Array], batch: int = CALIBRATION_BATCH) -> Samples:
    """Arrays in hand, all with their samples in the first dimension."""
    count = min(len(array) for array in arrays.values())
    starts = range(0, count, batch)
    return Samples(
        lambda: ({name: array[start : start + batch] for name, array in arrays.items()} for start in starts),
        len(starts),
        count,
        _digest(arrays),
        batch=batch,
    )


def generated_samples(session: Session, model: CheckedModel, profiles: Sequence[ShapeProfile]) -> Samples:
    """Generated inputs that the model takes; none where it takes none."""
    inputs, batch = model.inputs, best_batch(model.inputs, profiles, CALIBRATION_BATCH)
    sizes = sizes_of(inputs, model.shape_inputs, profiles[0], "opt") if profiles else {}
    shapes = [
        with_batch(inputs, profile_shapes(inputs, profile, "opt", guess), batch)
        for profile in profiles[:1]
        for guess in GUESSES
    ]
    shapes += [] if profiles else [free_shapes(inputs, 1, guess) for guess in GUESSES]
    for case in shapes:
        for number, feeds in enumerate(attempts(inputs, case, 0, sizes)):
            if _runs(session, feeds):
                more = [list(attempts(inputs, case, seed, sizes))[number] for seed in range(1, _GENERATED_RUNS)]
                every = [feeds, *more]
                return Samples(lambda: every, _GENERATED_RUNS, _GENERATED_RUNS, _digest(*every), generated=True)  # noqa: B023 - returned at once
    return Samples(list, 0, 0, generated=True)


def _digest(*every: Tensors) -> str:
    digest = hashlib.sha256()
    for arrays in every:
        for name in sorted(arrays):
            array = arrays[name]
            content = repr(array.tolist()).encode() if array.dtype.hasobject else np.ascontiguousarray(array).tobytes()
            digest.update(f"{name} {array.dtype} {array.shape} ".encode() + content)
    return f"sha256:{digest.hexdigest()}"


def _runs(session: Session, feeds: Tensors) -> bool:
    try:
        session.run([], feeds)
    except EngineryError:
        return False
    return True


def _read(data: Dataset, sketch: Sketch | None = None) -> tuple[int, int]:
    """How many batches and samples there are; what they look like goes into `sketch`.

    Raises FinalError for data that say nothing.
    """
    runs = found = 0
    digests: set[bytes] = set()
    spans: dict[str, tuple[float, float]] = {}
    for batch in data.batches():
        rows = {name: array for name, array in batch.rows.items() if array.dtype.kind in "fiub"}
        if sketch is not None:
            sketch.add(rows)
        runs, found = runs + 1, found + batch.samples
        digests |= {hashlib.sha256(b"".join(array[row].tobytes() for array in rows.values())).digest()
                    for row in range(len(next(iter(rows.values()), ())))}  # fmt: skip
        for name, array in rows.items():
            low, high = spans.get(name, (np.inf, -np.inf))
            if array.size:
                spans[name] = min(low, float(array.min())), max(high, float(array.max()))
    _require_varied(data.purpose, spans, found, len(digests))
    return runs, found


def _require_varied(purpose: Purpose, spans: Mapping[str, tuple[float, float]], count: int, different: int) -> None:
    """Masks of whole numbers may be constant; measurements may not, and no more may all samples be one."""
    if count > 1 and different == 1:
        raise purpose.fault(f"all {count} samples are the same; take samples of the inputs that the model will serve")
    dead = [name for name, (low, high) in spans.items() if low == high]
    if spans and len(dead) == len(spans):
        raise purpose.fault(
            f"every value of every array is the same ({spans[dead[0]][0]:g} in {dead[0]}); take samples of the inputs"
            " that the model will serve"
        )


def _feeds(data: Dataset) -> Iterator[Tensors]:
    return (batch.feeds for batch in data.batches())
