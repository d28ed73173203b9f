"""Which backend runs an engine. Third step of `startup`; the heavy library is imported only now, after logging."""

from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal

from enginery_store.errors import FinalError
from enginery_store.manifest import EngineManifest
from enginery_tensorrt import library

from enginery_runtime.backend import Backend
from enginery_runtime.errors import EngineLoadError

Name = Literal["TensorRT", "TensorRTRTX", "ONNXRuntime"]
"""As manifests write a backend."""


def installed_version(backend: Name) -> str:
    """The backend's exact version in this image, as manifests hold it; empty where it is not installed."""
    if backend == "ONNXRuntime":
        try:
            return version("onnxruntime")
        except PackageNotFoundError:
            return ""
    try:
        return library.load(backend).version
    except FinalError:
        return ""


def load(manifest: EngineManifest, path: Path, threads: int) -> Backend:
    """The opened engine; raises EngineLoadError, EngineDeviceMismatchError."""
    backend = _backend(manifest.backend)
    backend.open(path, manifest, threads)
    return backend


def _backend(name: Name) -> Backend:
    if name == "ONNXRuntime":
        from enginery_runtime.onnxruntime_backend import OnnxRuntimeBackend

        return OnnxRuntimeBackend()
    try:
        from enginery_runtime.tensorrt_backend import TensorRTBackend
    except ImportError as error:
        raise EngineLoadError(f"this image cannot load CUDA for {name}: {error}") from None
    return TensorRTBackend()
