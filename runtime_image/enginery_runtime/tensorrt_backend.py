"""TensorRT and TensorRT-RTX on a GPU or a slice of one, behind the `Backend` seam. Imported by `load`.

All the work is the shared session's, which the builder measured the engine with; here it meets the manifest, and errors
become the server's.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from enginery_store.errors import EngineryError
from enginery_store.manifest import DeviceFacts, EngineManifest, TensorSpec
from enginery_store.reasons import Reason
from enginery_tensorrt.device import device_facts
from enginery_tensorrt.errors import InputRefusedError
from enginery_tensorrt.library import load
from enginery_tensorrt.session import EngineSession

from enginery_runtime.datatypes import DTYPES, Array
from enginery_runtime.errors import EngineDeviceMismatchError, EngineLoadError, InvalidRequestError

_NARROWED = {"INT64": "INT32"}
"""TensorRT before 10 has no INT64: its engines take and give INT32 where the model has INT64."""


class TensorRTBackend:
    """One session on the first device, which in a pod is its slice."""

    def __init__(self) -> None:
        self._session: EngineSession | None = None
        self._dtypes: dict[str, np.dtype[np.generic]] = {}
        """What the manifest promises of each output."""

    def open(self, path: Path, manifest: EngineManifest, threads: int) -> None:  # noqa: ARG002 - the device computes
        """Deserialize the engine and compare its inputs and outputs with the manifest."""
        if manifest.backend == "ONNXRuntime":
            raise EngineLoadError("the engine is one of ONNXRuntime")
        try:
            session = EngineSession(path, load(manifest.backend))
        except EngineryError as error:
            if error.retryable:
                raise
            if error.reason is Reason.ENGINE_DEVICE_MISMATCH:
                raise EngineDeviceMismatchError(error.message) from None
            raise EngineLoadError(error.message) from None
        self._session = session
        _require_same("input", session.inputs, manifest.inputs)
        _require_same("output", session.outputs, manifest.outputs)
        self._dtypes = {spec.name: DTYPES[spec.datatype] for spec in manifest.outputs}

    def infer(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Run once. A CUDA error is raised as it is: the caller finds out that it stays, and has the pod replaced."""
        assert self._session is not None, "infer before open"  # noqa: S101 - a fault of this program
        try:
            outputs = self._session.run(inputs)
        except InputRefusedError as error:
            raise InvalidRequestError(error.message) from None
        return {name: outputs[name].astype(dtype, copy=False) for name, dtype in self._dtypes.items()}

    def device(self) -> DeviceFacts:
        """The GPU or slice."""
        return device_facts()

    def close(self) -> None:
        """Give the device's memory back."""
        if self._session is not None:
            self._session.close()
        self._session = None


def _require_same(kind: str, found: Sequence[TensorSpec], wanted: Sequence[TensorSpec]) -> None:
    have = {spec.name: spec.datatype for spec in found}
    want = {spec.name: spec.datatype for spec in wanted}
    if have != want and have != {name: _NARROWED.get(datatype, datatype) for name, datatype in want.items()}:
        raise EngineLoadError(f"the engine has {kind}s {have}, its manifest promises {want}")
