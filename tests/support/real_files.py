"""Calibration and evaluation data for magika from real files: four kinds, about a quarter each, none twice. For tests.

The files are those of the running Python installation, so that nothing is downloaded and every label is known.
"""

import json
import sysconfig
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from support.magika_inputs import features

_KINDS = {"*.py": "python", "*.pyc": "pythonbytecode", "*.so": "elf", "*.json": "json"}
_LEAST_BYTES = 2000
_MOST_OF_A_KIND = 400


def real_files(count: int, *, skip: int = 0) -> tuple[Any, Any]:
    """(inputs [count, 2048] int32, labels [count] int64), in an order of chance that is always the same; `skip` leaves
    out the first so many.
    """
    config = json.loads((resources.files("magika") / "models/standard_v3_3/config.min.json").read_text())
    classes = {name: number for number, name in enumerate(config["target_labels_space"])}
    every = [(path, classes[label]) for pattern, label in _KINDS.items() for path in _found(pattern)]
    order = np.random.default_rng(0).permutation(len(every))[skip : skip + count]
    assert len(order) == count, f"this installation has only {len(every)} files that fit"
    chosen = [every[number] for number in order]
    return np.stack([features(path.read_bytes()) for path, _ in chosen]), np.array([label for _, label in chosen])


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
