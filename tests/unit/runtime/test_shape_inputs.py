"""A model that takes the size of its answer as an input: profiles hold that input's values, not its shape."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from enginery_runtime.errors import InvalidRequestError
from enginery_runtime.infer import InferRequest, ModelShape
from enginery_runtime.load import load
from enginery_runtime.warm import warm
from enginery_store.manifest import EngineManifest
from onnx import TensorProto
from support.onnx_models import FLOAT, model, node, value
from support.published import a_manifest
from support.tensorrt_models import profile


def expand(sizes: int) -> onnx.ModelProto:
    """Repeats x as often as `size` says."""
    return model(
        [node("Expand", ["x", "size"], ["y"])],
        [value("x", FLOAT, [1] * sizes), value("size", TensorProto.INT64, [sizes])],
        [value("y", FLOAT, [f"n{axis}" for axis in range(sizes)])],
    )


def manifest_of(made: onnx.ModelProto, low: list[int], best: list[int], high: list[int]) -> EngineManifest:
    return a_manifest(made.SerializeToString(), profiles=[profile(size=(low, best, high))], shape_inputs=["size"])


def asked(*sizes: int) -> InferRequest:
    inputs = {"x": np.ones([1] * len(sizes), np.float32), "size": np.array(sizes)}
    return InferRequest("REST", inputs, (), lambda _: None)


def test_warm_up_feeds_the_values_that_the_profile_is_best_at(tmp_path: Path) -> None:
    made = expand(2)
    (tmp_path / "model.onnx").write_bytes(made.SerializeToString())
    manifest = manifest_of(made, [1, 1], [3, 5], [9, 9])
    backend = load(manifest, tmp_path / "model.onnx", threads=1)

    known_good = warm(backend, manifest, ModelShape(manifest, max_batch_size=8), runs=1)

    assert known_good["size"].tolist() == [3, 5]
    assert known_good["x"].shape == (1, 1)
    assert backend.infer(known_good)["y"].shape == (3, 5)


@pytest.mark.parametrize(
    ("sizes", "words"),
    [((9,), ""), ((10,), r"input 'size' is \[10\]; profile"), ((9, 4), ""), ((4, 10), r"input 'size' is \[4, 10\]")],
)
def test_requests_are_held_to_ranges_of_values(sizes: tuple[int, ...], words: str) -> None:
    low, best, high = ([size] * len(sizes) for size in (2, 3, 9))
    shape = ModelShape(manifest_of(expand(len(sizes)), low, best, high), max_batch_size=8)

    if not words:
        shape.admit(asked(*sizes))
        return
    with pytest.raises(InvalidRequestError, match=words):
        shape.admit(asked(*sizes))


def test_sizes_are_never_merged_into_a_batch() -> None:
    shape = ModelShape(manifest_of(expand(2), [1, 1], [2, 2], [8, 8]), max_batch_size=8)

    assert (shape.batches, shape.max_rows) == (False, 1)
