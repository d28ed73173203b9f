"""The metrics on numbers small enough to check by hand."""

from collections.abc import Mapping

import numpy as np
import pytest
from enginery_builder.backend import Array
from enginery_builder.measure.latency import percentile
from enginery_builder.measure.metrics import Metric, Tally, top_hits
from enginery_store.errors import FinalError
from enginery_store.reasons import Reason

REFERENCE = {"y": np.array([[0.1, 0.9, 0.0], [0.8, 0.1, 0.1], [0.2, 0.3, 0.5], [0.4, 0.5, 0.1]])}
ENGINE = {"y": np.array([[0.1, 0.9, 0.0], [0.1, 0.8, 0.1], [0.2, 0.3, 0.5], [0.4, 0.5, 0.1]])}
LABELS = np.array([1, 0, 2, 0])


def figures(
    metric: Metric, reference: Mapping[str, Array], engine: Mapping[str, Array], labels: Array | None, samples: int = 4
) -> tuple[str, ...]:
    tally = Tally(metric)
    tally.add(reference, engine, labels, samples)
    record = tally.record("d")
    return record.reference, record.measured, record.degradation


CASES: dict[str, tuple[Metric, Array | None, tuple[str, str, str]]] = {
    "Top1 with labels": ("Top1", LABELS, ("0.7500", "0.5000", "0.2500")),
    "Top1 without labels counts agreement": ("Top1", None, ("1.0000", "0.7500", "0.2500")),
    "Top5 of three classes is always right": ("Top5", LABELS, ("1.0000", "1.0000", "0.0000")),
    "largest error": ("MaxAbsError", None, ("0.000000000", "0.700000000", "0.700000000")),
    "mean error": ("MeanAbsError", None, ("0.000000000", "0.116666667", "0.116666667")),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_metric_gives_reference_measured_and_degradation(
    case: tuple[Metric, Array | None, tuple[str, str, str]],
) -> None:
    metric, labels, want = case

    assert figures(metric, REFERENCE, ENGINE, labels) == want


def test_cosine_is_one_for_equal_zero_for_orthogonal_and_defined_for_zero_vectors() -> None:
    reference = {"y": np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 0.0], [0.0, 0.0]])}
    engine = {"y": np.array([[2.0, 0.0], [0.0, 3.0], [0.0, 0.0], [1.0, 0.0]])}

    assert figures("CosineSimilarity", reference, engine, None) == ("1.000000000", "0.500000000", "0.500000000")


def test_better_than_the_reference_is_no_degradation() -> None:
    assert figures("Top1", ENGINE, REFERENCE, LABELS) == ("0.5000", "0.7500", "0.0000")


def test_equal_scores_count_for_the_lower_class() -> None:
    scores = np.array([[0.5, 0.5, 0.5]])

    assert top_hits(scores, np.array([0]), 1) == 1
    assert top_hits(scores, np.array([1]), 1) == 0
    assert top_hits(scores, np.array([1]), 2) == 1


def test_batches_add_up_as_one_would() -> None:
    whole, parts = Tally("MeanAbsError"), Tally("MeanAbsError")
    whole.add(REFERENCE, ENGINE, None, 4)
    for start, stop in ((0, 3), (3, 4)):
        parts.add({"y": REFERENCE["y"][start:stop]}, {"y": ENGINE["y"][start:stop]}, None, stop - start)

    assert whole.record("d") == parts.record("d")


FAILED, DATA = Reason.EVALUATION_FAILED, Reason.EVALUATION_DATA_INVALID
TEXT = {"y": np.array(["a"], object)}
IMAGE = {"y": np.zeros((4, 3, 2))}
Fault = tuple[Metric, Mapping[str, Array], Mapping[str, Array], Array | None, Reason, str]
FAULTS: dict[str, Fault] = {
    "NaN in the engine": ("Top1", REFERENCE, {"y": np.full((4, 3), np.nan)}, None, FAILED, "the engine"),
    "infinity in the reference": ("MaxAbsError", {"y": np.full((4, 3), np.inf)}, ENGINE, None, FAILED, "the reference"),
    "another shape": ("MaxAbsError", REFERENCE, {"y": np.zeros((4, 2))}, None, FAILED, "shape [4, 3]"),
    "an output missing": ("MaxAbsError", REFERENCE, {}, None, FAILED, "absent"),
    "text only": ("MaxAbsError", TEXT, TEXT, None, FAILED, "no numeric output"),
    "a label beyond the classes": ("Top1", REFERENCE, ENGINE, np.array([0, 1, 2, 3]), DATA, "3 classes"),
    "Top1 of an image": ("Top1", IMAGE, IMAGE, None, DATA, "[samples, classes]"),
}


@pytest.mark.parametrize("case", FAULTS.values(), ids=FAULTS.keys())
def test_outputs_that_cannot_be_compared_are_refused(
    case: Fault,
) -> None:
    metric, reference, engine, labels, reason, words = case

    with pytest.raises(FinalError) as caught:
        figures(metric, reference, engine, labels)
    assert caught.value.reason == reason
    assert words in caught.value.message


@pytest.mark.parametrize(("percent", "want"), [(50, 50), (99, 99), (100, 100), (1, 1)])
def test_percentile_is_by_nearest_rank(percent: int, want: int) -> None:
    assert percentile(list(range(1, 101)), percent) == want
    assert percentile([7], percent) == 7
