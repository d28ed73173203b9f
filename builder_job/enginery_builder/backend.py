"""The seam between the builder and what compiles: ONNX Runtime today, TensorRT as one more implementation.

`build` picks one with `backend_for`; steps see nothing but these protocols, and no backend is imported before it is
asked for.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from enginery_store.errors import FinalError
from enginery_store.manifest import BuildOptions, DeviceFacts, ShapeProfile, TensorSpec
from enginery_store.reasons import Reason

Array = npt.NDArray[Any]
Tensors = Mapping[str, Array]
"""Arrays by the name of the input or output."""

NUMPY_TYPES: dict[str, np.dtype[Any]] = {
    "BOOL": np.dtype(np.bool_),
    "INT8": np.dtype(np.int8),
    "INT16": np.dtype(np.int16),
    "INT32": np.dtype(np.int32),
    "INT64": np.dtype(np.int64),
    "UINT8": np.dtype(np.uint8),
    "UINT16": np.dtype(np.uint16),
    "UINT32": np.dtype(np.uint32),
    "UINT64": np.dtype(np.uint64),
    "FP16": np.dtype(np.float16),
    "FP32": np.dtype(np.float32),
    "FP64": np.dtype(np.float64),
    "BYTES": np.dtype(np.object_),
}
"""What a tensor of each OIP datatype is in numpy; BF16 has no numpy type of its own."""


class OpenModel(Protocol):
    """A loaded model or engine."""

    def run(self, feeds: Tensors) -> Tensors:
        """All outputs, by name. Raises EngineryError when the inputs do not fit or the run fails."""

    def output_shapes(self) -> Mapping[str, list[int]]:
        """Output shapes as the library infers them, -1 where free."""


class Backend(Protocol):
    """One way to compile: `version` and `device` decide whether a request is for this builder at all."""

    def version(self) -> str:
        """The exact version, as engine keys hold it."""

    def device(self) -> DeviceFacts:
        """The device in hand."""

    def compile(
        self, model: Path, folder: Path, profiles: list[ShapeProfile], options: BuildOptions, name: str
    ) -> tuple[Path, ...]:
        """Write the engine `name` into `folder`: the engine file first, then files it refers to by name.

        Raises EngineryError (UnsupportedOperator, BuildOutOfMemory, BuildFailed).
        """

    def open(self, engine: Path) -> OpenModel:
        """Load an engine that `compile` wrote, as the runtime will."""


def backend_for(name: str) -> Backend:
    """The implementation of a request's backend. Raises FinalError (InvalidSpec) for one this image lacks."""
    if name != "ONNXRuntime":
        raise FinalError(
            f"this builder has no backend {name}; set spec.build.backend to ONNXRuntime", reason=Reason.INVALID_SPEC
        )
    from enginery_builder.onnxruntime_backend import OnnxRuntimeBackend

    return OnnxRuntimeBackend()


def open_reference(model: Path, otherwise: Reason) -> OpenModel:
    """The FP32 reference: the ONNX file unoptimised in ONNX Runtime, whichever backend compiles it.

    Raises EngineryError with UnsupportedOperator, or `otherwise` for anything else the library refuses.
    """
    from enginery_builder.onnxruntime_backend import open_unoptimised

    return open_unoptimised(model, otherwise)


def leading_is_free(spec: TensorSpec) -> bool:
    """Whether the first dimension is a batch of any size."""
    return bool(spec.shape) and spec.shape[0] == -1
