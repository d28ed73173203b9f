"""Calibration and evaluation data for the quantized classifier: real files of this Python installation, none in both.

    python data.py FOLDER    writes calibration.npz and evaluation.npz, to be uploaded below the model's two addresses

The tests of builder and cluster take theirs from here too.
"""

import importlib.util
import sys
import sysconfig
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

CALIBRATION, EVALUATION = 300, 1000
"""How many files each of the two holds; inferencemodel.yaml says the same."""

_KINDS = {"*.py": "python", "*.pyc": "pythonbytecode", "*.so": "elf", "*.json": "json"}
_LEAST_BYTES = 2000
_MOST_OF_A_KIND = 400


def _classify() -> Any:
    """Example 01's program, which knows the model's input."""
    path = Path(__file__).parents[1] / "01-file-classification" / "classify.py"
    spec = importlib.util.spec_from_file_location("classify", path)
    assert spec is not None and spec.loader is not None  # noqa: S101, PT018 - the file is in the folder beside this one
    module = importlib.util.module_from_spec(spec)
    sys.modules["classify"] = module
    spec.loader.exec_module(module)
    return module


classify = _classify()


def real_files(count: int, *, skip: int = 0) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
    """(inputs [count, 2048], labels [count]): four kinds, about a quarter each, in an order of chance that is always
    the same; `skip` leaves out the first so many.
    """
    classes = classify.labels()
    every = [(path, classes.index(label)) for pattern, label in _KINDS.items() for path in _found(pattern)]
    order = np.random.default_rng(0).permutation(len(every))[skip : skip + count]
    if len(order) < count:
        sys.exit(f"this Python installation has only {len(every)} files that fit")
    chosen = [every[number] for number in order]
    inputs = np.stack([classify.features(path) for path, _ in chosen])
    return inputs, np.array([label for _, label in chosen], dtype=np.int64)


@cache
def _found(pattern: str) -> list[Path]:
    """Files large enough to judge, and no test's data, which is often broken on purpose."""
    roots = (Path(sysconfig.get_path("stdlib")), Path(sysconfig.get_path("purelib")))
    found = {path for root in roots for path in root.rglob(pattern)}
    fit = sorted(
        path
        for path in found
        if path.is_file() and path.stat().st_size > _LEAST_BYTES and not any("test" in part for part in path.parts[-3:])
    )
    return fit[:: max(1, len(fit) // _MOST_OF_A_KIND)][:_MOST_OF_A_KIND]


def main(folder: Path) -> None:
    """An .npz with the input by its name for calibration; with `labels` beside it for the gate."""
    folder.mkdir(parents=True, exist_ok=True)
    inputs, _ = real_files(CALIBRATION)
    others, labels = real_files(EVALUATION, skip=CALIBRATION)
    np.savez_compressed(folder / "calibration.npz", **{classify.INPUT: inputs})
    np.savez_compressed(folder / "evaluation.npz", **{classify.INPUT: others}, labels=labels)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
