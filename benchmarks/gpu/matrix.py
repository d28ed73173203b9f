"""What is compared: models, batch sizes, contenders. Imported by both interpreters, so it needs nothing installed."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLLOWED_SECONDS = 0.2
"""Length of one round of measuring; long enough for the GPU's clock to stay up."""

ROUNDS = 5
"""The median of so many rounds is reported."""

SAMPLES = 16
"""Inputs that are kept with their outputs: calibration, and a look at what reduced precision does to the outputs."""


@dataclass(frozen=True)
class Model:
    """One network, weights random: only speed is measured."""

    name: str
    input: str
    datatype: str
    item: tuple[int, ...]
    """Shape of one item."""
    output: str
    batches: tuple[int, ...]
    precisions: tuple[str, ...]
    """In the order of building, the most telling first."""

    def shape(self, batch: int) -> list[int]:
        """Of the input."""
        return [batch, *self.item]


MODELS = {
    model.name: model
    for model in (
        Model("resnet50", "image", "FP32", (3, 224, 224), "scores", (1, 8, 32, 128), ("INT8", "FP16", "FP32")),
        Model("bert-large", "input_ids", "INT64", (128,), "hidden", (1, 8, 32), ("FP16", "FP32", "INT8")),
    )
}

TORCH = ("eager FP32", "eager FP16", "compile FP16")
PRECISIONS = ("FP32", "FP16", "INT8")


def runs_for(milliseconds: float) -> int:
    """Runs that fill one round, for a run that takes so long."""
    return max(5, min(2000, int(1000 * FOLLOWED_SECONDS / max(milliseconds, 1e-3))))


def merge(path: Path, cell: dict[str, Any]) -> None:
    """Put one result into the file, in place of an older one of the same model and contender."""
    cells = json.loads(path.read_text()) if path.exists() else []
    name = (cell["model"], cell["contender"])
    cells = [other for other in cells if (other["model"], other["contender"]) != name] + [cell]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(cells, indent=1))


def done(path: Path, model: str, contender: str) -> bool:
    """Whether the file holds this result, complete."""
    cells = json.loads(path.read_text()) if path.exists() else []
    return any(
        (cell["model"], cell["contender"]) == (model, contender) and len(cell["batches"]) == len(MODELS[model].batches)
        for cell in cells
    )
