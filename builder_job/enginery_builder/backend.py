"""The seam between the builder and what compiles: ONNX Runtime, TensorRT and TensorRT-RTX.

`build` picks one with `backend_for`; steps see nothing but these protocols, and no backend is imported before it is
asked for.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt
from enginery_store.errors import FinalError
from enginery_store.manifest import BuildOptions, DeviceFacts, ShapeProfile, Target, TensorSpec
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

    def device_memory_bytes(self) -> int:
        """Device memory it takes; 0 where it lives in the process's own."""

    def output_shapes(self) -> Mapping[str, list[int]]:
        """Output shapes as the library infers them, -1 where free."""


@dataclass(frozen=True)
class CompileOrder:
    """What to compile, and where to put it."""

    model: Path
    """The prepared model; its external data lie beside it."""
    folder: Path
    name: str
    """File name of the engine, without suffix."""
    profiles: Sequence[ShapeProfile]
    options: BuildOptions
    precision: str
    """What the prepared model holds: FP32, FP16, BF16, INT8 or FP8."""
    target: Target
    timing_cache: bytes | None = None
    """Timings of earlier builds for this kind of slice; None where the store holds none."""


@dataclass(frozen=True)
class Compiled:
    """What a backend made of it."""

    files: tuple[Path, ...]
    """The engine first, then files it refers to by name, all in the order's folder."""
    layers: Mapping[str, int]
    """Layers by the precision they compute in; empty where the backend does not tell."""
    timing_cache: bytes | None = None
    """To be stored for the next build of this kind; None when there is nothing new."""
    timing_cache_state: Literal["Unused", "Cold", "Warm"] = "Unused"


class Backend(Protocol):
    """One way to compile: `version` and `require_target` decide whether a request is for this builder at all."""

    def version(self) -> str:
        """The exact version, as engine keys hold it."""

    def device(self) -> DeviceFacts:
        """The device in hand."""

    def require_target(self, target: Target) -> None:
        """Raise FinalError (EngineDeviceMismatch) that names both sides unless this pod can compile for the target, or
        PassingError (DeviceUnavailable).
        """

    def compile(self, order: CompileOrder) -> Compiled:
        """Write the engine.

        Raises EngineryError (UnsupportedOperator, InvalidShapes, BuildOutOfMemory, BuildFailed).
        """

    def open(self, engine: Path) -> OpenModel | None:
        """Load an engine that `compile` wrote, as the runtime will; None when it cannot run where it is compiled."""


def backend_for(name: str) -> Backend:
    """The implementation of a request's backend. Raises FinalError (ConfigError) for one this image lacks."""
    if name == "ONNXRuntime":
        from enginery_builder.onnxruntime_backend import OnnxRuntimeBackend

        return OnnxRuntimeBackend()
    if name == "TensorRTRTX":
        from enginery_builder.tensorrt.rtx import RTXBackend

        return RTXBackend()
    from enginery_builder.tensorrt.backend import TensorRTBackend

    return TensorRTBackend()


def wrong_device(target: Target, here: str, facts: DeviceFacts) -> FinalError:
    """The error of a pod that runs on another kind of device than its request is for."""
    return FinalError(
        f"the request is for {target.name}, this pod runs on {here} ({facts.name}); the Job needs a node of its target",
        reason=Reason.ENGINE_DEVICE_MISMATCH,
    )


def open_reference(model: Path, otherwise: Reason) -> OpenModel:
    """The FP32 reference: the ONNX file unoptimised in ONNX Runtime, whichever backend compiles it.

    Raises EngineryError with UnsupportedOperator, or `otherwise` for anything else the library refuses.
    """
    from enginery_builder.onnxruntime_backend import open_unoptimised

    return open_unoptimised(model, otherwise)


def leading_is_free(spec: TensorSpec) -> bool:
    """Whether the first dimension is a batch of any size."""
    return bool(spec.shape) and spec.shape[0] == -1
