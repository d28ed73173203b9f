"""Small promises of the builder's parts: late imports, shapes, generated inputs, names of objects."""

import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest
from enginery_builder import fetch
from enginery_builder.device import cpu_facts
from enginery_builder.samples import TEMPERS, attempts, seed_of
from enginery_builder.shapes import batch_of, free_shapes, profile_shapes, with_batch
from enginery_store.errors import EngineryError, PassingError
from enginery_store.identity import ListedObject, fingerprint
from enginery_store.manifest import ShapeProfile, TensorSpec
from enginery_store.reasons import Reason

X = TensorSpec(name="x", datatype="FP32", shape=[-1, -1, 4])
IDS = TensorSpec(name="ids", datatype="INT64", shape=[-1, 8])
SCALE = TensorSpec(name="s", datatype="FP64", shape=[])
PROFILE = ShapeProfile.model_validate(
    {"name": "p", "inputs": [{"name": "x", "min": [1, 2, 4], "opt": [4, 8, 4], "max": [16, 32, 4]}]}
)


def test_starting_loads_no_heavy_library() -> None:
    code = "import sys, enginery_builder.__main__; print({'onnx', 'onnxruntime', 'numpy'} & sys.modules.keys())"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "set()"


def test_profile_gives_shapes_at_its_ends_and_the_rest_stays_small() -> None:
    inputs = [X, IDS, SCALE]

    assert profile_shapes(inputs, PROFILE, "max") == {"x": (16, 32, 4), "ids": (1, 8), "s": ()}
    assert free_shapes(inputs, 3, 5) == {"x": (3, 5, 4), "ids": (3, 8), "s": ()}
    assert with_batch(inputs, profile_shapes(inputs, PROFILE, "opt"), 1) == {"x": (1, 8, 4), "ids": (1, 8), "s": ()}


@pytest.mark.parametrize(
    ("inputs", "want"),
    [([X, IDS], 7), ([SCALE], 1), ([TensorSpec(name="f", datatype="FP32", shape=[4, 2])], 4)],
    ids=["a free batch", "a scalar", "a fixed batch"],
)
def test_batch_is_the_leading_dimension(inputs: list[TensorSpec], want: int) -> None:
    assert batch_of(inputs, free_shapes(inputs, 7, 1)) == want


def test_generated_inputs_repeat_have_their_types_and_tame_integers() -> None:
    inputs = [X, IDS, SCALE, TensorSpec(name="t", datatype="BYTES", shape=[2])]
    shapes = free_shapes(inputs, 2, 3)

    first, again = (list(attempts(inputs, shapes, seed_of("ab" * 32))) for _ in range(2))

    assert len(first) == len(TEMPERS)
    for feeds, same in zip(first, again, strict=True):
        assert all(np.array_equal(feeds[name], same[name]) for name in feeds)
        assert {name: array.dtype.name for name, array in feeds.items()} == {
            "x": "float32", "ids": "int64", "s": "float64", "t": "object",
        }  # fmt: skip
        assert {name: array.shape for name, array in feeds.items()} == shapes
        assert set(np.unique(feeds["ids"])) <= {0, 1}


def test_type_that_numpy_lacks_generates_nothing() -> None:
    assert list(attempts([TensorSpec(name="b", datatype="BF16", shape=[1])], {"b": (1,)}, 0)) == []


REFUSED: dict[str, tuple[Callable[[], None], Reason]] = {
    "no bytes": (lambda: fetch.require_size([ListedObject("a", 0, "e")], 10, "u"), Reason.SOURCE_INVALID),
    "too many bytes": (lambda: fetch.require_size([ListedObject("a", 11, "e")], 10, "u"), Reason.SOURCE_TOO_LARGE),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED.keys())
def test_order_that_cannot_be_met_is_refused(case: tuple[Callable[[], None], Reason]) -> None:
    call, reason = case

    with pytest.raises(EngineryError) as caught:
        call()
    assert caught.value.reason == reason


def test_listing_that_changed_is_passing() -> None:
    listing = [ListedObject("a", 1, "e")]

    fetch.require_unchanged(listing, "", "u")
    fetch.require_unchanged(listing, fingerprint(listing), "u")
    with pytest.raises(PassingError, match="replaced"):
        fetch.require_unchanged([ListedObject("a", 1, "f")], fingerprint(listing), "u")


def test_cpu_facts_are_in_kubernetes_words() -> None:
    facts = cpu_facts()

    assert facts.architecture in {"amd64", "arm64"}
    assert facts.multiprocessors >= 1
    assert facts.memory_bytes > 1 << 28
