"""Evaluation data as tenants write them: cut into runs, or refused with the array at fault."""

import io
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from enginery_builder.artifacts import FetchedFiles
from enginery_builder.datasets import Batch, Dataset, best_batch
from enginery_store.client import file_digest
from enginery_store.errors import FinalError
from enginery_store.manifest import ShapeProfile, TensorSpec
from enginery_store.reasons import Reason
from support.evaluation_files import npz

X = TensorSpec(name="x", datatype="FP32", shape=[-1, 4])
FIXED = TensorSpec(name="x", datatype="FP32", shape=[2, 4])
THRESHOLD = TensorSpec(name="t", datatype="FP32", shape=[])
IDS = TensorSpec(name="ids", datatype="INT64", shape=[-1, -1])


def rows(count: int, dtype: Any = np.float32) -> Any:
    return np.arange(count * 4).reshape(count, 4).astype(dtype)


def cut(
    folder: Path, files: dict[str, bytes], inputs: list[TensorSpec], wanted: int, profiles: Any = ()
) -> list[Batch]:
    for name, data in files.items():
        (folder / name).write_bytes(data)
    data = FetchedFiles(folder, {name: file_digest(folder / name) for name in files}, "sha256:0")
    return list(Dataset(data, inputs, best_batch(inputs, list(profiles)), most=wanted, least=wanted).batches())


def test_samples_are_cut_into_batches_over_files_in_name_order(tmp_path: Path) -> None:
    files = {"b.npz": npz(x=rows(3), labels=np.arange(3)), "a.npz": npz(x=rows(10), labels=np.arange(10))}

    found = cut(tmp_path, files, [X], 12)

    assert [batch.samples for batch in found] == [8, 2, 2]
    assert [batch.labels.tolist() for batch in found if batch.labels is not None][1:] == [[8, 9], [0, 1]]
    assert found[1].feeds["x"].tolist() == rows(10)[8:].tolist()


def test_profile_decides_the_batch(tmp_path: Path) -> None:
    profile = ShapeProfile.model_validate(
        {"name": "p", "inputs": [{"name": "x", "min": [1, 4], "opt": [3, 4], "max": [8, 4]}]}
    )

    assert [batch.samples for batch in cut(tmp_path, {"a.npz": npz(x=rows(7))}, [X], 7, [profile])] == [3, 3, 1]


def test_fixed_batch_is_never_cut(tmp_path: Path) -> None:
    found = cut(tmp_path, {"a.npz": npz(x=rows(6))}, [FIXED], 3)

    assert [batch.feeds["x"].shape for batch in found] == [(2, 4), (2, 4)]


def test_input_without_a_batch_goes_into_every_run(tmp_path: Path) -> None:
    found = cut(tmp_path, {"a.npz": npz(x=rows(10), t=np.float32(0.5))}, [X, THRESHOLD], 10)

    assert [float(batch.feeds["t"]) for batch in found] == [0.5, 0.5]


def test_text_arrays_become_objects(tmp_path: Path) -> None:
    text = TensorSpec(name="s", datatype="BYTES", shape=[-1])

    assert cut(tmp_path, {"a.npz": npz(s=np.array(["a", "bc"]))}, [text], 2)[0].feeds["s"].tolist() == ["a", "bc"]


@dataclass(frozen=True)
class Case:
    data: Any
    words: list[str]
    inputs: tuple[TensorSpec, ...] = (X,)
    wanted: int = 1


def pickled() -> bytes:
    return npz(x=np.array([{"a": 1}], dtype=object))


def lying_header() -> bytes:
    """An .npy header that promises 4 TB."""
    content = io.BytesIO()
    np.lib.format.write_array_header_1_0(content, {"descr": "<f4", "fortran_order": False, "shape": (1 << 38, 4)})  # type: ignore[arg-type]
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("x.npy", content.getvalue() + bytes(64))
    return file.getvalue()


CASES = {
    "too few samples": Case(npz(x=rows(3)), ["3 samples", "asks for 5"], wanted=5),
    "no array for an input": Case(npz(z=rows(3)), ["no array for input x"]),
    "an array that is no input": Case(npz(x=rows(3), extra=rows(1)), ["extra", "no input"]),
    "another type": Case(npz(x=rows(3, np.float64)), ["float64", "float32", "FP32"]),
    "another inner size": Case(npz(x=np.zeros((3, 5), np.float32)), ["[3, 5]", "[N, 4]"]),
    "another rank": Case(npz(x=np.zeros(4, np.float32)), ["[4]", "[N, 4]"]),
    "different counts": Case(
        npz(x=rows(3), ids=np.zeros((2, 1), np.int64)), ["different numbers of samples"], (X, IDS)
    ),
    "labels of floats": Case(npz(x=rows(3), labels=np.zeros(3)), ["labels", "float64"]),
    "labels for other samples": Case(npz(x=rows(3), labels=np.zeros(2, int)), ["labels", "3 samples"]),
    "NaN": Case(npz(x=np.full((3, 4), np.nan, np.float32)), ["NaN"]),
    "a remainder of a fixed batch": Case(npz(x=rows(3)), ["exactly 2 at a time"], (FIXED,)),
    "pickled objects": Case(pickled(), ["not an .npz"]),
    "no archive": Case(b"this is no archive", ["not an .npz"]),
    "an archive cut off": Case(npz(x=rows(1000))[:500], ["not an .npz"]),
    "a header that promises terabytes": Case(lying_header(), ["not an .npz", "cut off"]),
    "an empty archive": Case(npz(), ["no array for input x"]),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_bad_data_are_refused_with_the_array_at_fault(tmp_path: Path, case: Case) -> None:
    with pytest.raises(FinalError) as caught:
        cut(tmp_path, {"a.npz": case.data}, list(case.inputs), case.wanted)

    assert caught.value.reason == Reason.EVALUATION_DATA_INVALID
    assert [word for word in case.words if word not in caught.value.message] == [], caught.value.message
