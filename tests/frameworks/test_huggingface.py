"""transformers itself: encoders, heads and vision models convert with its answers; missing weights are named."""

from pathlib import Path
from typing import Any

import onnxruntime
import pytest
from enginery_store.manifest import InputRange, ShapeProfile, Target
from enginery_store.reasons import Reason
from support.builder_runs import Workbench
from support.conversions import conversion_order, prepared_files, three_containers, upload_folder
from support.frameworks import Framework, largest_difference
from support.s3_servers import Bucket

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


def test_real_encoder_goes_from_its_directory_to_two_engines(tmp_path: Path, bucket: Bucket, models: Path) -> None:
    bench = Workbench(tmp_path, bucket)
    uri = upload_folder(bench, models / "minilm" / "source", "models/minilm")
    sizes = {"min": [1, 8], "opt": [4, 128], "max": [8, 512]}
    names = ["input_ids", "attention_mask", "token_type_ids"]
    profile = ShapeProfile(name="default", inputs=[InputRange(name=name, **sizes) for name in names])
    request = bench.prepare_request(uri, [profile], format="HuggingFace", task="FeatureExtraction")

    manifest = three_containers(bench, PYTORCH, request)

    assert manifest.opset == 18
    assert [(item.name, item.datatype, item.shape) for item in manifest.inputs] == [
        (name, "INT64", [-1, -1]) for name in names
    ]
    assert [(item.name, item.shape) for item in manifest.outputs] == [
        ("last_hidden_state", [-1, -1, 384]), ("pooler_output", [-1, 384]),
    ]  # fmt: skip
    model = prepared_files(bench, manifest, tmp_path)
    assert max(largest_difference(model, models / "minilm" / "case.npz").values()) < TOLERANCE

    for number, (capability, product) in enumerate((("8.6", "NVIDIA-A10"), ("8.9", "NVIDIA-L4"))):
        target = Target(accelerator="GPU", compute_capability=capability, product=product)
        fields: dict[str, Any] = {"backend": "TensorRTRTX", "backend_version": "1.7.1", "target": target}
        built = bench.run(bench.build_request(manifest.key, [profile], n=number, **fields))
        assert (built.code, built.reason) == (0, Reason.ALL_TARGETS_BUILT), built.log


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
