"""transformers itself: encoders, heads and vision models convert with its answers; missing weights are named."""

from pathlib import Path

import onnxruntime
import pytest
from enginery_store.reasons import Reason
from support.conversions import conversion_order
from support.frameworks import Framework, largest_difference

pytestmark = pytest.mark.frameworks

PYTORCH = Framework("pytorch")

TOLERANCE = 2e-5
"""Largest difference of values around 1: both compute in FP32, in another order."""

TASKS = {
    "minilm": "FeatureExtraction",
    "no_pooler": "FeatureExtraction",
    "text": "TextClassification",
    "tokens": "TokenClassification",
    "patches": "ImageClassification",
    "convolutions": "ImageClassification",
    "detection": "ObjectDetection",
}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return PYTORCH.models("huggingface_models.py", tmp_path_factory.mktemp("models"))


@pytest.mark.parametrize("case", TASKS)
def test_directory_answers_as_transformers_does(models: Path, case: str) -> None:
    conversion = PYTORCH.convert(models / case, conversion_order("HuggingFace", TASKS[case]))

    assert conversion.refusal is None
    assert conversion.tool_versions.items() >= {"torch": "2.15.0", "transformers": "5.24.0"}.items()
    folder = models / case / "converted"
    assert {path.name for path in folder.iterdir()} == {"model.onnx", "model.onnx.data", "converted.json"}
    assert max(largest_difference(folder / "model.onnx", models / case / "case.npz").values()) < TOLERANCE


def test_encoder_without_a_pooler_says_so(models: Path) -> None:
    conversion = PYTORCH.convert(models / "no_pooler", conversion_order("HuggingFace"))

    assert conversion.warnings == ["the checkpoint has no pooler; the model answers last_hidden_state only"]


@pytest.mark.parametrize(
    ("case", "free"), [("convolutions", [True, False, True, True]), ("patches", [True, False, False, False])]
)
def test_size_of_images_is_free_where_the_architecture_takes_every_size(
    models: Path, case: str, free: list[bool]
) -> None:
    PYTORCH.convert(models / case, conversion_order("HuggingFace"))

    (item,) = onnxruntime.InferenceSession(models / case / "converted" / "model.onnx").get_inputs()

    assert [isinstance(size, str) for size in item.shape] == free


REFUSED = [
    ("no_head", "TextClassification", "lacks weights that BertForSequenceClassification needs for TextClassification"),
    ("damaged", "TextClassification", "cannot load this directory (model_type distilbert)"),
]


@pytest.mark.parametrize("refused", REFUSED, ids=[case for case, _, _ in REFUSED])
def test_weights_that_are_not_there_are_missed_in_words(models: Path, refused: tuple[str, str, str]) -> None:
    case, task, text = refused

    conversion = PYTORCH.convert(models / case, conversion_order("HuggingFace", task))

    assert conversion.refusal is not None
    assert conversion.refusal.reason == Reason.SOURCE_INVALID
    assert text in conversion.refusal.message
