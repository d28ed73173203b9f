"""ONNX Runtime on a CPU, behind the `Backend` seam. Imported by `load` once the manifest asks for it.

Numpy has no bfloat16 that ONNX Runtime takes, so such tensors travel as its own values; strings are `str` there and
`bytes` on the wire.
"""

import ctypes
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnxruntime as ort
from enginery_store.manifest import DeviceFacts, EngineManifest, TensorSpec
from onnxruntime.capi import onnxruntime_pybind11_state as native

from enginery_runtime.datatypes import DTYPES, Array, element_count
from enginery_runtime.device import cpu_facts
from enginery_runtime.errors import EngineLoadError, InvalidRequestError

# Whose model runs where is nobody else's business.
ort.disable_telemetry_events()

_DATATYPES = {
    "tensor(bool)": "BOOL",
    "tensor(float16)": "FP16",
    "tensor(float)": "FP32",
    "tensor(double)": "FP64",
    "tensor(bfloat16)": "BF16",
    "tensor(string)": "BYTES",
} | {f"tensor({sign}int{bits})": f"{sign.upper()}INT{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
"""ONNX Runtime's type names in the protocol's words."""

_ONNX_BFLOAT16 = 16
"""TensorProto.BFLOAT16."""


class OnnxRuntimeBackend:
    """One session on CPU threads."""

    def __init__(self) -> None:
        self._session: Any = None
        self._names: list[str] = []
        self._text_inputs: list[str] = []
        self._text_outputs: list[str] = []
        self._values = False
        """Whether the engine speaks bfloat16, which needs the slower way through ONNX Runtime's own values."""

    def open(self, path: Path, manifest: EngineManifest, threads: int) -> None:
        """Read the model file and compare its inputs and outputs with the manifest."""
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # pods share cores with neighbours
        try:
            self._session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        except Exception as error:
            raise EngineLoadError(f"ONNX Runtime refuses the engine: {first_line(error)}") from error
        _require_same("input", self._session.get_inputs(), manifest.inputs)
        _require_same("output", self._session.get_outputs(), manifest.outputs)
        self._names = [spec.name for spec in manifest.outputs]
        self._text_inputs = [spec.name for spec in manifest.inputs if spec.datatype == "BYTES"]
        self._text_outputs = [spec.name for spec in manifest.outputs if spec.datatype == "BYTES"]
        self._values = any(spec.datatype == "BF16" for spec in [*manifest.inputs, *manifest.outputs])
        if self._values and self._text_inputs:
            raise EngineLoadError("a model with both BF16 tensors and BYTES inputs is not supported by ONNX Runtime")

    def infer(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Run once; ONNX Runtime releases the GIL meanwhile."""
        feeds = dict(inputs)
        for name in self._text_inputs:
            feeds[name] = _to_text(name, feeds[name])
        try:
            arrays = self._run_values(feeds) if self._values else self._session.run(self._names, feeds)
        except native.InvalidArgument as error:
            raise InvalidRequestError(f"the model refuses these inputs: {first_line(error)}") from None
        outputs = dict(zip(self._names, arrays, strict=True))
        for name in self._text_outputs:
            outputs[name] = _to_bytes(outputs[name])
        return outputs

    def _run_values(self, feeds: Mapping[str, Array]) -> list[Array]:
        values = {
            name: ort.OrtValue.ortvalue_from_numpy_with_onnx_type(
                np.ascontiguousarray(array).view(np.uint16), _ONNX_BFLOAT16
            )
            if array.dtype == ml_dtypes.bfloat16
            else ort.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(array))
            for name, array in feeds.items()
        }
        return [_to_array(value) for value in self._session.run_with_ort_values(self._names, values)]

    def device(self) -> DeviceFacts:
        """The CPU."""
        return cpu_facts()

    def close(self) -> None:
        """Drop the session."""
        self._session = None


def first_line(error: BaseException) -> str:
    """The library's words without its stack of lines."""
    text = str(error).strip()
    return text.splitlines()[0][:500] if text else type(error).__name__


def _require_same(kind: str, found: list[Any], wanted: list[TensorSpec]) -> None:
    have = {item.name: _DATATYPES.get(item.type, item.type) for item in found}
    want = {spec.name: spec.datatype for spec in wanted}
    if have != want:
        raise EngineLoadError(f"the engine has {kind}s {have}, its manifest promises {want}")


def _to_text(name: str, array: Array) -> Array:
    text = np.empty(array.size, np.object_)
    try:
        text[:] = [item.decode() for item in array.reshape(-1).tolist()]
    except UnicodeDecodeError:
        raise InvalidRequestError(f"input {name!r}: ONNX Runtime takes text, and an element is not UTF-8") from None
    return text.reshape(array.shape)


def _to_bytes(array: Array) -> Array:
    data = np.empty(array.size, np.object_)
    data[:] = [str(item).encode() for item in array.reshape(-1).tolist()]
    return data.reshape(array.shape)


def _to_array(value: Any) -> Array:
    if value.data_type() != "tensor(bfloat16)":
        array: Array = value.numpy()
        return array
    shape = tuple(value.shape())
    dtype = DTYPES["BF16"]
    raw = ctypes.string_at(value.data_ptr(), element_count(shape) * dtype.itemsize)
    return np.frombuffer(raw, dtype).reshape(shape)
