"""TensorFlow itself, from a Keras model to a prepared model whose answers are TensorFlow's."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from enginery_store.manifest import InputRange, ShapeProfile
from enginery_store.reasons import Reason
from support.builder_runs import Workbench
from support.conversions import conversion_order
from support.frameworks import Framework, largest_difference
from support.s3_servers import Bucket, moto_server

TENSORFLOW = Framework("tensorflow")

TOLERANCE = 1e-5
"""Largest difference of values around 1: both compute in FP32, in another order."""


@pytest.fixture(scope="module")
def bucket() -> Iterator[Bucket]:
    with moto_server() as server:
        yield server.bucket()


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return TENSORFLOW.models("tensorflow_models.py", tmp_path_factory.mktemp("models"))


def test_keras_model_goes_through_the_three_containers(tmp_path: Path, bucket: Bucket, models: Path) -> None:
    bench = Workbench(tmp_path, bucket)
    for path in (models / "images" / "source").rglob("*"):
        if path.is_file():
            bench.upload(f"models/images/{path.relative_to(models / 'images' / 'source')}", path.read_bytes())
    sizes = {end: [batch, 32, 32, 3] for end, batch in (("min", 1), ("opt", 4), ("max", 8))}
    profile = ShapeProfile(name="default", inputs=[InputRange(name="image", **sizes)])
    request = bench.prepare_request(f"s3://{bucket.name}/models/images/", [profile], format="TensorFlowSavedModel")

    fetched = bench.run(request, "fetch")
    conversion = TENSORFLOW.convert(tmp_path / "work", request)
    prepared = bench.run(request)

    assert (fetched.code, prepared.code) == (0, 0), prepared.log
    assert conversion.refusal is None
    outcome = bench.outcome(request.key)
    assert outcome is not None
    manifest = bench.prepared(outcome.prepared_key)
    assert manifest.opset == 17
    assert [(item.name, item.shape) for item in manifest.inputs] == [("image", [-1, 32, 32, 3])]
    assert manifest.tool_versions.items() >= conversion.tool_versions.items() >= {"tensorflow-cpu": "2.21.0"}.items()
    model = bench.bucket.get(
        f"{bench.prefix_key}/prepared/{outcome.prepared_key[:2]}/{outcome.prepared_key}/model.onnx"
    )
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
