"""Calibration data: what says something about the real inputs is taken, with its distance; what does not is refused."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from enginery_builder.artifacts import FetchedFiles
from enginery_builder.backend import Array
from enginery_builder.datasets import best_batch
from enginery_builder.precision.distance import FARTHEST, Sketch, distance
from enginery_builder.precision.samples import Samples, calibration_samples, gate_samples
from enginery_store.client import file_digest
from enginery_store.errors import FinalError
from enginery_store.manifest import ShapeProfile, TensorSpec
from enginery_store.reasons import Reason
from support.evaluation_files import npz
from support.precision_models import normal
from support.real_files import real_files

IMAGE = TensorSpec(name="x", datatype="FP32", shape=[-1, 3, 8, 8])
MASK = TensorSpec(name="mask", datatype="INT64", shape=[-1, 4])


def images(count: int, seed: int = 0) -> Array:
    """Smooth, each with a brightness and a contrast of its own, as photographs are."""
    chance = np.random.default_rng(seed)
    waves = np.sin(np.linspace(0, 3, 64).reshape(8, 8) * chance.uniform(0.5, 2, (count, 3, 1, 1)))
    own = chance.normal(0, 0.7, (count, 1, 1, 1)) + chance.uniform(0.1, 1, (count, 1, 1, 1)) * waves
    return own.astype(np.float32)


def files(folder: Path, name: str, **arrays: Array) -> FetchedFiles:
    place = folder / name
    place.mkdir()
    (place / "a.npz").write_bytes(npz(**arrays))
    return FetchedFiles(place, {"a.npz": file_digest(place / "a.npz")}, f"sha256:{name}")


def taken(folder: Path, calibration: dict[str, Array], evaluation: dict[str, Array], *inputs: TensorSpec) -> Samples:
    return calibration_samples(
        files(folder, "c", **calibration), files(folder, "e", **evaluation), inputs or (IMAGE,), (), 100
    )


def sketched(array: Array) -> Sketch:
    sketch = Sketch()
    sketch.add({"x": array})
    return sketch


def test_samples_of_the_same_kind_are_taken_with_a_small_distance(tmp_path: Path) -> None:
    found = taken(tmp_path, {"x": images(120)}, {"x": images(200, seed=1)})

    assert (found.count, found.runs, found.digest) == (100, 13, "sha256:c")
    assert 0 < float(found.distance) < 0.3
    assert [len(feeds["x"]) for feeds in found.batches()] == [8] * 12 + [4]
    assert [len(feeds["x"]) for feeds in found.after(12)] == [4]


def test_distance_is_zero_for_the_same_data_and_one_for_nothing_in_common() -> None:
    assert distance(sketched(images(100)), sketched(images(100))) == 0
    assert distance(sketched(images(100)), sketched(images(100) + 1000)) == 1


def test_kolmogorov_smirnov_by_hand() -> None:
    """Four samples of one value each, 0 1 2 3 against 2 3 4 5: half of the first lies below all of the second."""
    one, other = (np.arange(start, start + 4, dtype=np.float32)[:, None] for start in (0, 2))

    assert distance(sketched(one), sketched(other)) == 0.5


@pytest.mark.parametrize(
    ("make", "refused"),
    [
        (lambda _: real_files(300, skip=700)[0], False),
        (lambda real: np.random.default_rng(1).integers(0, 256, real.shape), True),
        (lambda real: np.random.default_rng(1).normal(128, 40, real.shape).clip(0, 256).astype(np.int32), True),
        (lambda real: real[real.mean(axis=1) < np.median(real.mean(axis=1))], False),
    ],
    ids=["other real files", "uniform noise", "normal noise", "the darker half of real files"],
)
def test_noise_is_far_from_real_files_and_one_sided_files_are_not(
    make: Callable[[Array], Array], refused: bool
) -> None:
    real = real_files(700)[0]

    assert (distance(sketched(make(real)), sketched(real)) > FARTHEST) is refused


def test_masks_say_nothing_and_may_be_constant(tmp_path: Path) -> None:
    full, sparse = np.ones((120, 4), np.int64), np.random.default_rng(0).integers(0, 2, (120, 4))

    found = taken(tmp_path, {"x": images(120), "mask": full}, {"x": images(120, seed=1), "mask": sparse}, IMAGE, MASK)

    assert float(found.distance) < 0.3


def test_a_file_is_one_sample_where_nothing_counts_samples(tmp_path: Path) -> None:
    wide, flat = (TensorSpec(name=name, datatype="FP32", shape=shape) for name, shape in (("x", [5, 4]), ("y", [2])))
    parts = {f"{number}.npz": npz(x=normal(5, 4, seed=number), y=normal(2, seed=number)) for number in range(100)}
    for name, content in parts.items():
        (tmp_path / name).write_bytes(content)
    data = FetchedFiles(tmp_path, {name: file_digest(tmp_path / name) for name in parts}, "sha256:0")

    found = calibration_samples(data, data, (wide, flat), (), 100)

    assert (found.count, found.runs, found.distance) == (100, 100, "0.000")


def test_without_evaluation_data_there_is_no_distance(tmp_path: Path) -> None:
    found = calibration_samples(files(tmp_path, "c", x=images(100)), None, (IMAGE,), (), 100)

    assert found.distance == ""


@dataclass(frozen=True)
class Case:
    calibration: Callable[[], Array]
    reason: Reason
    words: list[str]


CASES = {
    "noise": Case(
        lambda: normal(120, 3, 8, 8), Reason.CALIBRATION_DATA_INVALID, ["from the evaluation data", "noise", "0.8"]
    ),
    "too few": Case(lambda: images(99), Reason.TOO_FEW_SAMPLES, ["99 samples", "calibration.samples asks for 100"]),
    "NaN": Case(lambda: images(120) * np.float32("nan"), Reason.CALIBRATION_DATA_INVALID, ["NaN"]),
    "one sample again and again": Case(
        lambda: np.repeat(images(1), 120, axis=0), Reason.CALIBRATION_DATA_INVALID, ["samples are the same"]
    ),
    "another shape": Case(
        lambda: images(120)[:, :2], Reason.CALIBRATION_DATA_INVALID, ["[120, 2, 8, 8]", "[N, 3, 8, 8]"]
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_data_that_say_nothing_are_refused_in_words(tmp_path: Path, case: Case) -> None:
    with pytest.raises(FinalError) as caught:
        taken(tmp_path, {"x": case.calibration()}, {"x": images(120, seed=1)})

    assert caught.value.reason == case.reason
    assert caught.value.message.startswith("calibration data: ")
    assert [word for word in case.words if word not in caught.value.message] == [], caught.value.message


def test_bad_evaluation_data_are_not_blamed_on_calibration(tmp_path: Path) -> None:
    with pytest.raises(FinalError) as caught:
        taken(tmp_path, {"x": images(120)}, {"y": images(120)})

    assert caught.value.reason == Reason.EVALUATION_DATA_INVALID


def test_overflow_is_looked_for_on_a_few_of_the_gates_samples(tmp_path: Path) -> None:
    found = gate_samples(files(tmp_path, "e", x=images(400), labels=np.zeros(400, int)), (IMAGE,), (), 1000)

    assert (found.count, found.runs) == (128, 16)


@pytest.mark.parametrize(("sizes", "want"), [((1, 32, 64), 8), ((16, 32, 64), 16), ((1, 4, 8), 4)])
def test_calibration_batch_is_small_but_within_the_profile(sizes: tuple[int, int, int], want: int) -> None:
    ends = {end: [size, 3, 8, 8] for end, size in zip(("min", "opt", "max"), sizes, strict=True)}
    profile = ShapeProfile.model_validate({"name": "p", "inputs": [{"name": "x", **ends}]})

    assert best_batch([IMAGE], [profile], 8) == want
