"""Compares an engine with the FP32 reference, on evaluation data or on generated inputs. Called by `measure`."""

import logging
from collections.abc import Sequence

from enginery_store.errors import EngineryError, FinalError
from enginery_store.manifest import AccuracyRecord, ShapeProfile, TensorSpec
from enginery_store.reasons import Reason
from enginery_store.requests import EvaluationRef

from enginery_builder.artifacts import FetchedFiles
from enginery_builder.backend import OpenModel, Tensors
from enginery_builder.measure.evaluation import batches
from enginery_builder.measure.metrics import Tally
from enginery_builder.samples import attempts, seed_of
from enginery_builder.shapes import Shapes, batch_of

LOG = logging.getLogger(__name__)

SYNTHETIC = "synthetic"
"""Stands in a manifest for the digest of data, where there were none."""

EVALUATION_BATCH = 8
"""Samples of one run where no profile says more."""


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
    for batch in batches(data, inputs, profiles, asked.samples, EVALUATION_BATCH):
        wanted = _run(reference, batch.feeds, Reason.EVALUATION_DATA_INVALID)
        found = _run(engine, batch.feeds, Reason.EVALUATION_FAILED)
        tally.add(wanted, found, batch.labels, batch.samples)
        LOG.info("evaluated", extra={"samples": tally.samples, "of": asked.samples})
    _require_telling(tally)
    return tally.record(data.digest)


def on_generated(
    reference: OpenModel, engine: OpenModel, inputs: Sequence[TensorSpec], shapes: Sequence[Shapes], key: str
) -> AccuracyRecord:
    """MaxAbsError on generated inputs; zero samples where none of them leads to finite outputs in the reference."""
    tally = Tally("MaxAbsError")
    for case in shapes:
        for feeds in attempts(inputs, case, seed_of(key)):
            try:
                tally.add(reference.run(feeds), engine.run(feeds), None, batch_of(inputs, case))
            except EngineryError as error:
                LOG.info("generated input says nothing", extra={"shapes": case, "error": error.message})
            else:
                break
    return tally.record(SYNTHETIC)


def _run(model: OpenModel, feeds: Tensors, reason: Reason) -> Tensors:
    try:
        return model.run(feeds)
    except EngineryError as error:
        raise FinalError(f"a batch of the evaluation data does not run: {error.message}", reason=reason) from None


def _require_telling(tally: Tally) -> None:
    """Outputs that never vary compare as equal and prove nothing: a dead model, or data that say nothing."""
    if tally.samples > 1 and tally.lowest == tally.highest:
        what = "zero" if tally.lowest == 0 else f"{tally.lowest:g}"
        raise FinalError(
            f"every output of all {tally.samples} samples is {what}; the model is broken, or the evaluation data do not"
            " fit it",
            reason=Reason.EVALUATION_FAILED,
        )
