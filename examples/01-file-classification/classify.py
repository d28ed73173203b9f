"""From a file to the model's input, and from its output to a label. Used by the demo and by the tests.

The model is the ONNX classifier that the PyPI package `magika` carries: real weights, and as real inputs the files of
any Python installation, whose kinds are known.
"""

import json
import sysconfig
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import magika
import numpy as np
import numpy.typing as npt

FOLDER = Path(magika.__file__).parent / "models" / "standard_v3_3"
MODEL = FOLDER / "model.onnx"

INPUT, OUTPUT = "bytes", "target_label"
"""Names of the model's one input (int32 [batch, 2048]) and one output (float32 [batch, 214])."""


@dataclass(frozen=True)
class Sample:
    """A real file and what it is."""

    path: Path
    label: str


@cache
def configuration() -> dict[str, object]:
    """The model's own: window sizes, padding and the names of its 214 outputs."""
    loaded: dict[str, object] = json.loads((FOLDER / "config.min.json").read_text())
    return loaded


def labels() -> list[str]:
    """Name of each output."""
    return list(configuration()["target_labels_space"])  # type: ignore[call-overload]


def features(path: Path) -> npt.NDArray[np.int32]:
    """int32 [2048]: 1024 bytes from the start and 1024 from the end, white space stripped, 256 where there are none."""
    content = path.read_bytes()
    size, block, padding = 1024, 4096, 256
    small = len(content) <= block
    begin = (content[:block].strip() if small else content[:block].lstrip())[:size]
    end = (content[-block:].strip() if small else content[-block:].rstrip())[-size:]
    row = np.full(2 * size, padding, dtype=np.int32)
    row[: len(begin)] = np.frombuffer(begin, dtype=np.uint8)
    row[2 * size - len(end) :] = np.frombuffer(end, dtype=np.uint8)
    return row


def samples(count: int, *, skip: int = 0) -> list[Sample]:
    """Files of this Python installation, a quarter each of source, bytecode, shared libraries and JSON; always the same
    ones for the same installation. `skip` leaves out the first so many of each kind.
    """
    standard, packages = Path(sysconfig.get_path("stdlib")), Path(sysconfig.get_path("purelib"))
    kinds = [
        (standard, "*.py", "python"),
        (packages, "*.pyc", "pythonbytecode"),
        (packages, "*.so", "elf"),
        (packages, "*.json", "json"),
    ]
    chosen: list[Sample] = []
    for index, (root, pattern, label) in enumerate(kinds):
        wanted = count // len(kinds) + (index < count % len(kinds))
        found = sorted(path for path in root.rglob(pattern) if _plain(path, root))
        stride = max(1, len(found) // (wanted + skip))
        chosen += [Sample(path, label) for path in found[::stride][skip : skip + wanted]]
    return chosen


def _plain(path: Path, root: Path) -> bool:
    """Large enough to judge, and no test's data, which is often broken on purpose."""
    parts = path.relative_to(root).parts
    return path.is_file() and path.stat().st_size > 2000 and not any("test" in part for part in parts)  # noqa: PLR2004


def evaluation_file(target: Path, chosen: list[Sample]) -> None:
    """An .npz as spec.precision.accuracyGate reads it: the input by its name, and `labels`."""
    names = labels()
    np.savez_compressed(
        target,
        **{INPUT: np.stack([features(sample.path) for sample in chosen])},  # type: ignore[arg-type]
        labels=np.array([names.index(sample.label) for sample in chosen], dtype=np.int64),
    )
