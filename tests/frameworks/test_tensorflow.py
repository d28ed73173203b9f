"""TensorFlow itself, from a Keras model to a prepared model whose answers are TensorFlow's."""

from pathlib import Path

import pytest
from enginery_store.manifest import InputRange, ShapeProfile
from enginery_store.reasons import Reason
from support.builder_runs import Workbench
from support.conversions import conversion_order, prepared_files, three_containers, upload_folder
from support.frameworks import Framework, largest_difference
from support.s3_servers import Bucket

TENSORFLOW = Framework("tensorflow")

TOLERANCE = 1e-5
"""Largest difference of values around 1: both compute in FP32, in another order."""


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return TENSORFLOW.models("tensorflow_models.py", tmp_path_factory.mktemp("models"))


def test_keras_model_goes_through_the_three_containers(tmp_path: Path, bucket: Bucket, models: Path) -> None:
    bench = Workbench(tmp_path, bucket)
    uri = upload_folder(bench, models / "images" / "source", "models/images")
    sizes = {end: [batch, 32, 32, 3] for end, batch in (("min", 1), ("opt", 4), ("max", 8))}
    profile = ShapeProfile(name="default", inputs=[InputRange(name="image", **sizes)])

    manifest = three_containers(bench, TENSORFLOW, bench.prepare_request(uri, [profile], format="TensorFlowSavedModel"))

    assert manifest.opset == 17
    assert [(item.name, item.shape) for item in manifest.inputs] == [("image", [-1, 32, 32, 3])]
    assert manifest.tool_versions.items() >= {"tensorflow-cpu": "2.21.0", "tf2onnx": "1.17.0"}.items()
    model = prepared_files(bench, manifest, tmp_path)
    assert max(largest_difference(model, models / "images" / "case.npz").values()) < TOLERANCE


def test_names_of_several_inputs_and_outputs_are_the_signatures(models: Path) -> None:
    case = models / "two_heads"

    conversion = TENSORFLOW.convert(case, conversion_order("TensorFlowSavedModel"))

    assert conversion.refusal is None
    differences = largest_difference(case / "converted" / "model.onnx", case / "case.npz")
    assert differences.keys() == {"label", "score"}
    assert max(differences.values()) < TOLERANCE


REFUSED = [
    ("python", Reason.UNSUPPORTED_OPERATOR, "calls a Python function (tf.py_function or tf.numpy_function)"),
    ("custom", Reason.UNSUPPORTED_OPERATOR, "operator MyFusedOp (node tail) is a custom operator"),
    ("no_counterpart", Reason.UNSUPPORTED_OPERATOR, "no counterpart in ONNX: Cholesky"),
    ("no_signature", Reason.SOURCE_INVALID, "no signature serving_default (it has: none)"),
    ("cut", Reason.SOURCE_INVALID, "saved_model.pb is cut off or damaged"),
]


@pytest.mark.parametrize("refused", REFUSED, ids=[case for case, _, _ in REFUSED])
def test_model_that_cannot_be_converted_is_refused_in_words(models: Path, refused: tuple[str, Reason, str]) -> None:
    case, reason, text = refused

    conversion = TENSORFLOW.convert(models / case, conversion_order("TensorFlowSavedModel"))

    assert conversion.refusal is not None
    assert conversion.refusal.reason == reason
    assert text in conversion.refusal.message
    assert [path.name for path in (models / case / "converted").iterdir()] == ["converted.json"]
