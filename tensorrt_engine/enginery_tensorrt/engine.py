"""A deserialized engine and what it says of itself: tensors, profiles, layers. Called by `session`.

TensorRT reports a file it does not take by None and lines in its log, so the lines are kept and turned into words here.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from enginery_store.errors import EngineryError, PassingError
from enginery_store.manifest import TensorSpec
from enginery_store.reasons import Reason

from enginery_tensorrt.errors import EngineRefusedError
from enginery_tensorrt.library import Library, LineKeeper
from enginery_tensorrt.shapes import ProfileRange, Shape

if TYPE_CHECKING:
    import tensorrt as trt

_DATATYPES = {
    "FLOAT": "FP32",
    "HALF": "FP16",
    "BF16": "BF16",
    "INT8": "INT8",
    "INT32": "INT32",
    "INT64": "INT64",
    "UINT8": "UINT8",
    "BOOL": "BOOL",
}
"""From TensorRT's names of types to the protocol's; BF16 came with 9, INT64 with 10. Inputs of other types have no
place in the protocol."""

_DTYPES: dict[str, np.dtype[Any]] = {
    "FP32": np.dtype(np.float32),
    "FP16": np.dtype(np.float16),
    "INT8": np.dtype(np.int8),
    "INT32": np.dtype(np.int32),
    "INT64": np.dtype(np.int64),
    "UINT8": np.dtype(np.uint8),
    "BOOL": np.dtype(np.bool_),
}

_FREE = -1

_ANOTHER_VERSION = (
    "not compatible with this version of TensorRT",
    "incompatible serialization version",
    "Version tag does not match",
)
_ANOTHER_DEVICE = (
    "generated on an incompatible device",
    "current device is not compatible",
    "across different models of devices",
)
_NO_DEVICE = ("CUDA driver version is insufficient", "no CUDA-capable device", "CUDA initialization failure")
"""What TensorRT's lines say, by what to do about it. A magic tag that does not match comes with the word of an
incompatible serialization version, although such a file is damaged or no engine at all."""

_NO_ENGINE = ("Magic tag does not match", "kEXPECTED_MAGIC_TAG")


@dataclass(frozen=True)
class Tensor:
    """One input or output of an engine."""

    spec: TensorSpec
    dtype: "np.dtype[Any]"
    on_host: bool
    """TensorRT reads or writes it in host memory: the values of shapes."""

    @property
    def name(self) -> str:
        """As the model calls it."""
        return self.spec.name


@dataclass(frozen=True)
class Engine:
    """A deserialized engine; `raw` is TensorRT's own, and dies with the last reference to it."""

    raw: "trt.ICudaEngine"
    lines: LineKeeper
    plan_bytes: int
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    profiles: tuple[ProfileRange, ...]

    @property
    def activation_bytes(self) -> int:
        """Device memory that one run needs, the largest over all profiles."""
        newer = getattr(self.raw, "device_memory_size_v2", None)
        return int(self.raw.device_memory_size if newer is None else newer)

    def fault(self) -> str:
        """The last error TensorRT reported."""
        return _last_error(self.lines)


def open_engine(plan: Path, library: Library) -> Engine:
    """Deserialize onto the first device.

    Raises EngineRefusedError (EngineDeviceMismatch for another version or device, EngineLoadFailed for anything else),
    PassingError (DeviceUnavailable) without a device.
    """
    lines = library.fresh_log()
    data = plan.read_bytes()
    try:
        runtime = library.trt.Runtime(lines)
    except (TypeError, RuntimeError) as error:  # bindings raise one or the other for a constructor that gave nothing
        raise refusal(_texts(lines) or [str(error)], library) from None
    raw = runtime.deserialize_cuda_engine(data)
    warned = [text for text in _texts(lines) if any(part in text for part in _ANOTHER_DEVICE)]
    if raw is None or warned:
        raise refusal(warned or _texts(lines), library)
    tensors = [_tensor(library.trt, raw, raw.get_tensor_name(index)) for index in range(raw.num_io_tensors)]
    inputs = tuple(tensor for tensor, is_input in tensors if is_input)
    return Engine(
        raw=raw,
        lines=lines,
        plan_bytes=len(data),
        inputs=inputs,
        outputs=tuple(tensor for tensor, is_input in tensors if not is_input),
        profiles=tuple(_profile(raw, inputs, index) for index in range(max(1, raw.num_optimization_profiles))),
    )


def refusal(lines: Iterable[str], library: Library) -> EngineryError:
    """What TensorRT's lines about an engine mean."""
    text = " ".join(" ".join(lines).split())[:600] or "it said nothing"
    if any(part in text for part in _NO_DEVICE):
        return PassingError(f"{library.name} finds no device: {text}", reason=Reason.DEVICE_UNAVAILABLE)
    if any(part in text for part in _ANOTHER_DEVICE):
        return EngineRefusedError(
            f"the engine was built on another kind of device, and must be built on this one: {text}",
            reason=Reason.ENGINE_DEVICE_MISMATCH,
        )
    if any(part in text for part in _ANOTHER_VERSION) and not any(part in text for part in _NO_ENGINE):
        return EngineRefusedError(
            f"the engine was built by another version than this {library.name} {library.version}, and must be built"
            f" again: {text}",
            reason=Reason.ENGINE_DEVICE_MISMATCH,
        )
    return EngineRefusedError(f"{library.name} {library.version} does not take the engine: {text}")


def layers_json(trt_module: Any, engine: "trt.ICudaEngine") -> str:
    """Every layer as TensorRT's inspector describes it; little more than names unless it was built with details."""
    inspector = engine.create_engine_inspector()
    return str(inspector.get_engine_information(trt_module.LayerInformationFormat.JSON))


def _tensor(trt: Any, engine: "trt.ICudaEngine", name: str) -> tuple[Tensor, bool]:
    code = engine.get_tensor_dtype(name).name
    datatype = _DATATYPES.get(code)
    if datatype is None:
        raise EngineRefusedError(f"tensor {name!r} is of TensorRT's type {code}, which no request can hold; cast it")
    spec = TensorSpec(name=name, datatype=datatype, shape=list(engine.get_tensor_shape(name)))
    on_host = engine.get_tensor_location(name) == trt.TensorLocation.HOST
    return Tensor(spec, _dtype(datatype), on_host), engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT


def _dtype(datatype: str) -> "np.dtype[Any]":
    if datatype == "BF16":
        import ml_dtypes

        datatype_of_its_own: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
        return datatype_of_its_own
    return _DTYPES[datatype]


def _profile(engine: "trt.ICudaEngine", inputs: Iterable[Tensor], index: int) -> ProfileRange:
    least: dict[str, Shape] = {}
    most: dict[str, Shape] = {}
    for tensor in inputs:
        fixed = tuple(tensor.spec.shape)
        if tensor.on_host:
            extents = _profile_values(engine, tensor.name, index)
        else:
            extents = engine.get_tensor_profile_shape(tensor.name, index) if _FREE in fixed else [fixed] * 3
        least[tensor.name], _, most[tensor.name] = (tuple(extent) for extent in extents)
    return ProfileRange(least, most, frozenset(tensor.name for tensor in inputs if tensor.on_host))


def _profile_values(engine: "trt.ICudaEngine", name: str, profile: int) -> Any:
    """Least, best and largest values of an input that holds a shape; 8.6 has another name for it, and tells the first
    value of each only.
    """
    newer = getattr(engine, "get_tensor_profile_values", None)
    return engine.get_profile_shape_input(profile, name) if newer is None else newer(profile, name)


def _texts(lines: LineKeeper) -> list[str]:
    return [line.text for line in lines.lines]


def _last_error(lines: LineKeeper) -> str:
    errors = [line.text for line in lines.lines if line.severity != "WARNING"]
    return errors[-1].strip()[:300] if errors else "TensorRT gave no reason"
