"""What a case is: a source to upload, how it is asked for, and how `prepare` must end. Used by every family."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import onnx
from enginery_store.manifest import ShapeProfile
from enginery_store.reasons import Reason
from enginery_store.requests import PrecisionRef

Made = onnx.ModelProto | bytes | dict[str, bytes]
"""A model, the bytes of one file, or several files by name."""

Maker = Callable[[], Made]

Backend = Literal["TensorRT", "TensorRTRTX", "ONNXRuntime"]

MODEL_NAME = "model.onnx"


@dataclass(frozen=True)
class Case:
    """One row of the table in `expected`, with its source."""

    name: str
    make: Maker
    backend: Backend
    profiles: tuple[ShapeProfile, ...]
    precision: PrecisionRef
    verdict: Literal["accept", "warn", "reject"]
    """warn: prepared, with a note in the outcome."""
    reason: Reason | None
    """Of a refusal."""
    words: tuple[str, ...]
    """What the message, or the note, must hold."""

    def files(self) -> dict[str, bytes]:
        """What to upload, by name."""
        made = self.make()
        if isinstance(made, dict):
            return made
        return {MODEL_NAME: made.SerializeToString() if isinstance(made, onnx.ModelProto) else made}
