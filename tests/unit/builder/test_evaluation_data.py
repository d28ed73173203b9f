"""Evaluation data as tenants write them: cut into runs, or refused with the array at fault."""

import io
import zipfile
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from enginery_builder.artifacts import FetchedFiles
from enginery_builder.datasets import Batch, Dataset, best_batch
from enginery_builder.measure.accuracy import gate_data
from enginery_store.client import file_digest
from enginery_store.errors import FinalError
from enginery_store.manifest import ShapeProfile, TensorSpec
from enginery_store.reasons import Reason
from enginery_store.requests import EvaluationRef
from support.evaluation_files import npz
from support.tensorrt_models import profile

X = TensorSpec(name="x", datatype="FP32", shape=[-1, 4])
FIXED = TensorSpec(name="x", datatype="FP32", shape=[2, 4])
THRESHOLD = TensorSpec(name="t", datatype="FP32", shape=[])
TEXT = TensorSpec(name="x", datatype="BYTES", shape=[-1])
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


@pytest.mark.parametrize(
    ("files", "wanted", "runs"),
    [([10], 10, [6, 4]), ([9], 9, [5, 4]), ([7], 7, [7]), ([20], 9, [8, 4]), ([3, 5], 5, [5]), ([8, 4], 12, [8, 4])],
    ids=["a rest", "an odd rest", "one run", "more than wanted", "a short file", "whole runs"],
)
def test_no_run_has_fewer_samples_than_an_engine_takes(
    tmp_path: Path, files: list[int], wanted: int, runs: list[int]
) -> None:
    found = read(tmp_path, {f"{number}.npz": npz(x=rows(count)) for number, count in enumerate(files)}, wanted)

    assert [batch.samples for batch in found] == runs


def test_files_that_make_no_whole_run_are_too_few(tmp_path: Path) -> None:
    with pytest.raises(FinalError, match=r"hold 0 samples in whole runs of 4 or more, accuracyGate.samples asks for 6"):
        read(tmp_path, {"a.npz": npz(x=rows(3)), "b.npz": npz(x=rows(3))}, 6)


def read(folder: Path, files: dict[str, bytes], wanted: int) -> list[Batch]:
    """As for an engine of 4 to 8 rows, best at 8."""
    for name, content in files.items():
        (folder / name).write_bytes(content)
    data = FetchedFiles(folder, {name: file_digest(folder / name) for name in files}, "sha256:0")
    asked = EvaluationRef(uri="s3://data/e", metric="MaxAbsError", samples=wanted, max_degradation=Decimal(1))
    return list(gate_data([X], [profile(x=([4, 4], [8, 4], [8, 4]))], asked, data).batches())


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


def headed(kind: str, shape: tuple[int, ...], content: bytes = b"") -> bytes:
    """An array whose header says this."""
    return with_header(f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}", content)


def with_header(header: str, content: bytes = b"") -> bytes:
    text = header.encode().ljust(117) + b"\n"
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("x.npy", np.lib.format.magic(1, 0) + len(text).to_bytes(2, "little") + text + content)
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
    "a header that promises terabytes": Case(headed("<f4", (1 << 38, 4), bytes(64)), ["not an .npz", "cut off"]),
    "any number of elements in no bytes": Case(headed("|S0", (1 << 60,)), ["not an .npz", "without a size"], (TEXT,)),
    "a header that is no Python": Case(with_header("{'descr': (((("), ["not an .npz"]),
    "a header indented as no Python is": Case(with_header("if x:\n  1\n 2"), ["not an .npz"]),
    "a header of numbers without end": Case(with_header("-" * 9000 + "1"), ["not an .npz"]),
    "an empty archive": Case(npz(), ["no array for input x"]),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_bad_data_are_refused_with_the_array_at_fault(tmp_path: Path, case: Case) -> None:
    with pytest.raises(FinalError) as caught:
        cut(tmp_path, {"a.npz": case.data}, list(case.inputs), case.wanted)

    assert caught.value.reason == Reason.EVALUATION_DATA_INVALID
    assert [word for word in case.words if word not in caught.value.message] == [], caught.value.message
