"""Compares an engine with the FP32 reference, on evaluation data or on generated inputs. Called by `measure`."""

import logging
from collections.abc import Sequence

from enginery_store.errors import EngineryError, FinalError
from enginery_store.manifest import AccuracyRecord, ShapeProfile, TensorSpec
from enginery_store.reasons import Reason
from enginery_store.requests import EvaluationRef

from enginery_builder.artifacts import FetchedFiles
from enginery_builder.backend import OpenModel, Tensors
from enginery_builder.datasets import Dataset, best_batch
from enginery_builder.measure.metrics import Tally, comparable, same_shapes
from enginery_builder.samples import attempts, seed_of
from enginery_builder.shapes import Shapes, batch_of

LOG = logging.getLogger(__name__)

SYNTHETIC = "synthetic"
"""Stands in a manifest for the digest of data, where there were none."""


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
    wanted_samples = Dataset(data, inputs, best_batch(inputs, profiles), most=asked.samples, least=asked.samples)
    for batch in wanted_samples.batches():
        wanted = _run(reference, batch.feeds, Reason.EVALUATION_DATA_INVALID)
        found = _run(engine, batch.feeds, Reason.EVALUATION_FAILED)
        tally.add(wanted, found, batch.labels, batch.samples)
        LOG.info("evaluated", extra={"samples": tally.samples, "of": asked.samples})
    _require_telling(tally)
    return tally.record(data.digest)


def on_generated(
    reference: OpenModel, engine: OpenModel, inputs: Sequence[TensorSpec], shapes: Sequence[Shapes], key: str
) -> AccuracyRecord:
    """MaxAbsError on generated inputs; zero samples where none of them leads to finite outputs in the reference.

    Raises FinalError (EvaluationFailed) where the engine fails, or gives NaN or a constant, and the reference does not.
    """
    tally = Tally("MaxAbsError")
    for case in shapes:
        for feeds in attempts(inputs, case, seed_of(key)):
            wanted = _telling(reference, feeds)
            if wanted is None:
                continue
            found = _run(engine, feeds, Reason.EVALUATION_FAILED, "a generated input")
            if not same_shapes(wanted, found):  # shapes that depend on values, of which noise says nothing
                LOG.info("generated input leads to other shapes", extra={"shapes": case})
                continue
            tally.add(wanted, found, None, batch_of(inputs, case))
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


def _run(model: OpenModel, feeds: Tensors, reason: Reason, what: str = "a batch of the evaluation data") -> Tensors:
    try:
        return model.run(feeds)
    except EngineryError as error:
        raise FinalError(f"{what} does not run: {error.message}", reason=reason) from None


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
