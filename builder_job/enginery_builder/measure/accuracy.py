"""Compares an engine with the FP32 reference, on evaluation data or on generated inputs. Called by `measure`."""

import logging
from collections.abc import Sequence

from enginery_store.errors import EngineryError, FinalError
from enginery_store.manifest import AccuracyRecord, ShapeProfile, TensorSpec
from enginery_store.reasons import Reason
from enginery_store.requests import EvaluationRef

from enginery_builder.artifacts import FetchedFiles
from enginery_builder.backend import OpenModel, Tensors
from enginery_builder.datasets import Dataset, best_batch, fewest_samples
from enginery_builder.measure.latency import WorkingPoint
from enginery_builder.measure.metrics import Tally, comparable, same_shapes
from enginery_builder.samples import attempts, seed_of

LOG = logging.getLogger(__name__)

SYNTHETIC = "synthetic"
"""Stands in a manifest for the digest of data, where there were none."""


def gate_data(
    inputs: Sequence[TensorSpec], profiles: Sequence[ShapeProfile], asked: EvaluationRef, data: FetchedFiles
) -> Dataset:
    """The samples that the gate asks for, in runs that the first profile takes."""
    return Dataset(
        data,
        inputs,
        best_batch(inputs, profiles),
        most=asked.samples,
        least=asked.samples,
        fewest=fewest_samples(inputs, profiles),
    )


def on_data(
    reference: OpenModel,
    engine: OpenModel,
    inputs: Sequence[TensorSpec],
    *,
    profiles: Sequence[ShapeProfile],
    asked: EvaluationRef,
    data: FetchedFiles,
) -> AccuracyRecord:
    """Both run the same samples. Raises FinalError: EvaluationDataInvalid, or EvaluationFailed for useless outputs."""
    tally = Tally(asked.metric)
    for batch in gate_data(inputs, profiles, asked, data).batches():
        wanted = _run_data(reference, batch.feeds, Reason.EVALUATION_DATA_INVALID)
        found = _run_data(engine, batch.feeds, Reason.EVALUATION_FAILED)
        tally.add(wanted, found, batch.labels, batch.samples)
        LOG.info("evaluated", extra={"samples": tally.samples, "of": asked.samples})
    _require_telling(tally)
    return tally.record(data.digest)


def on_generated(
    reference: OpenModel, engine: OpenModel, inputs: Sequence[TensorSpec], points: Sequence[WorkingPoint], key: str
) -> AccuracyRecord:
    """MaxAbsError on generated inputs; zero samples where none of them leads to finite outputs in the reference.

    Raises FinalError (EvaluationFailed) where the engine fails, or gives NaN or a constant, and the reference does not.
    """
    tally = Tally("MaxAbsError")
    for point in points:
        for feeds in attempts(inputs, point.shapes, seed_of(key), point.sizes):
            wanted = _telling(reference, feeds)
            if wanted is None:
                continue
            try:
                found = engine.run(feeds)
            except EngineryError as error:
                raise _not_run(error, Reason.EVALUATION_FAILED, "a generated input") from None
            if not same_shapes(wanted, found):  # shapes that depend on values, of which noise says nothing
                LOG.info("generated input leads to other shapes", extra={"shapes": point.shapes})
                continue
            tally.add(wanted, found, None, point.batch)
            break
    tally.require_alive()
    return tally.record(SYNTHETIC)


def _telling(reference: OpenModel, feeds: Tensors) -> Tensors | None:
    """The reference's outputs, if it takes this input and they are numbers to compare."""
    try:
        outputs = reference.run(feeds)
    except EngineryError as error:
        LOG.info("generated input refused", extra={"error": error.message})
        return None
    return outputs if comparable(outputs) else None


def _run_data(model: OpenModel, feeds: Tensors, reason: Reason) -> Tensors:
    """`reason` is for what has no better one: inputs that an engine does not take are the data's fault."""
    try:
        return model.run(feeds)
    except EngineryError as error:
        found = Reason.EVALUATION_DATA_INVALID if error.reason is Reason.INVALID_SHAPES else reason
        raise _not_run(error, found, "a batch of the evaluation data") from None


def _not_run(error: EngineryError, reason: Reason, what: str) -> EngineryError:
    """A failed device and a lack of memory say nothing of engine or data, and may be gone the next time."""
    if error.retryable or error.reason is Reason.BUILD_OUT_OF_MEMORY:
        return error
    return FinalError(f"{what} does not run: {error.message}", reason=reason)


def _require_telling(tally: Tally) -> None:
    """Outputs that never vary compare as equal and prove nothing: a dead model, or data that say nothing."""
    tally.require_alive()
    value = tally.constant
    if tally.samples > 1 and value is not None:
        what = "zero" if value == 0 else f"{value:g}"
        raise FinalError(
            f"every output of all {tally.samples} samples is {what}; the model is broken, or the evaluation data do not"
            " fit it",
            reason=Reason.EVALUATION_FAILED,
        )
