"""Real inputs with known labels for the magika model: the files of a Python installation. For tests and examples."""

import json
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

_BLOCK = 4096
_SIDE = 1024
_PADDING = 256
_LABELS = {".py": "python", ".json": "json", ".html": "html", ".css": "css", ".md": "markdown", ".h": "c"}


def magika_samples(root: Path, count: int) -> tuple[Any, Any]:
    """(inputs [count, 2048] int32, labels [count] int64) from files below `root` whose suffix says what they are."""
    config = json.loads((resources.files("magika") / "models/standard_v3_3/config.min.json").read_text())
    classes = {name: number for number, name in enumerate(config["target_labels_space"])}
    inputs: list[Any] = []
    labels: list[int] = []
    for path in sorted(root.rglob("*.py")):
        data = path.read_bytes() if path.is_file() else b""
        if len(data) > 2 * _BLOCK:
            inputs.append(features(data))
            labels.append(classes[_LABELS[path.suffix]])
        if len(inputs) == count:
            break
    return np.stack(inputs), np.array(labels, np.int64)


def features(data: bytes) -> Any:
    """What magika looks at: 1024 bytes from each end, white space stripped, as integers."""
    head, tail = data[:_BLOCK].lstrip()[:_SIDE], data[-_BLOCK:].rstrip()[-_SIDE:]
    first = [*head, *[_PADDING] * (_SIDE - len(head))]
    last = [*[_PADDING] * (_SIDE - len(tail)), *tail]
    return np.array([*first, *last], np.int32)
