"""Nothing that a tenant uploads may take this Job's memory, or ask a compiler for terabytes."""

from pathlib import Path

import numpy as np
import pytest
from enginery_builder.check import memory
from enginery_builder.check.profiles import LARGEST_INPUT_BYTES, bytes_per_element
from enginery_builder.check.structure import SMALL_BYTES, structure_of
from enginery_store.errors import FinalError
from onnx import TensorProto
from support.checking import checked
from support.onnx_cases.expected import batches, profile
from support.onnx_models import FLOAT, constant, model, node, one, value, weight, with_external_data


@pytest.mark.parametrize("kind", [TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.UINT8])
def test_input_is_bounded_in_bytes_whatever_its_type(tmp_path: Path, kind: int) -> None:
    made = one("Identity", (kind, ["N"]), (kind, ["N"]))
    size = bytes_per_element({FLOAT: "FP32", TensorProto.FLOAT16: "FP16", TensorProto.UINT8: "UINT8"}[kind])
    most = LARGEST_INPUT_BYTES // size

    assert checked(tmp_path, made, batches("x", high=most)).notes == ()
    with pytest.raises(FinalError, match=f"input x has {LARGEST_INPUT_BYTES + size} bytes at max") as caught:
        checked(tmp_path, made, batches("x", high=most + 1))
    assert caught.value.reason == "InvalidShapes"


def test_tensor_between_operators_is_bounded_at_max(tmp_path: Path) -> None:
    made = model(
        [node("Expand", ["x", "s"], ["wide"], "widen"), node("ReduceSum", ["wide"], ["y"], keepdims=0)],
        [value("x", FLOAT, ["N", 1])],
        [value("y", FLOAT, [])],
        [constant("s", [1, 1 << 20], np.int64)],
    )
    most = memory.LARGEST_ACTIVATION_BYTES >> 22

    assert checked(tmp_path, made, batches("x", 1, best=1, high=most)).notes == ()
    with pytest.raises(FinalError, match=r"Expand \(node widen\) makes tensor wide of 34363932672 bytes") as caught:
        checked(tmp_path, made, batches("x", 1, best=1, high=most + 1))
    assert caught.value.reason == "InvalidShapes"


def test_batch_baked_in_shows_even_where_max_is_too_large_to_try(tmp_path: Path) -> None:
    made = model(
        [node("Reshape", ["x", "s"], ["y"], "baked")],
        [value("x", FLOAT, ["N", 1 << 20])],
        [value("y", FLOAT, [1024, 1024])],
        [constant("s", [1024, 1024], np.int64)],
    )

    with pytest.raises(FinalError, match=r"the model does not run at its opt shapes.*baked"):
        checked(tmp_path, made, batches("x", 1 << 20, best=8, high=1024))


def test_inputs_whose_sizes_depend_on_each_other_are_not_mistaken_for_a_batch(tmp_path: Path) -> None:
    """b is twice as long as a: one sample more in each would never run."""
    made = model(
        [node("Concat", ["a", "a"], ["twice"], axis=0), node("Add", ["twice", "b"], ["y"])],
        [value("a", FLOAT, ["N"]), value("b", FLOAT, ["M"])],
        [value("y", FLOAT, ["M"])],
    )
    ranges = profile(a=([2], [2], [1 << 23]), b=([4], [4], [1 << 24]))

    assert checked(tmp_path, made, [ranges]).notes == ()


def memory_bytes(entry: str) -> int:
    """VmRSS: what this process takes now. VmHWM: the most it took."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(entry))


def test_long_vector_in_a_profile_does_not_take_memory(tmp_path: Path) -> None:
    """Shape inference of onnx would make an object for each element: 8 GB here."""
    made = model([node("Concat", ["a", "a"], ["y"], axis=0)], [value("a", FLOAT, ["N"])], [value("y", FLOAT, ["M"])])
    Path("/proc/self/clear_refs").write_text("5")  # the most is now what it takes now
    before = memory_bytes("VmRSS")

    checked(tmp_path, made, batches("a", best=1, high=1 << 24))

    assert memory_bytes("VmHWM") - before < 1 << 30


@pytest.mark.parametrize("outside", [False, True])
def test_structure_keeps_small_constants_and_drops_weights(tmp_path: Path, outside: bool) -> None:
    made = model(
        [node("MatMul", ["x", "W"], ["h"]), node("Add", ["h", "b"], ["y"])],
        [value("x", FLOAT, ["N", 256])],
        [value("y", FLOAT, ["N", 256])],
        [weight("W", 256, 256), constant("b", np.arange(256), np.float32)],
    )
    model_bytes, data = with_external_data(made, "w.data") if outside else (made.SerializeToString(), b"")
    (tmp_path / "model.onnx").write_bytes(model_bytes)
    (tmp_path / "w.data").write_bytes(data)

    structure = structure_of(tmp_path / "model.onnx")

    assert structure.model.ByteSize() < SMALL_BYTES
    assert structure.constants.keys() == {"b"}
    assert np.array_equal(structure.constants["b"], np.arange(256))
    assert structure.sizes_at({"x": (2, 256)}) == {"h": 2048, "y": 2048}
