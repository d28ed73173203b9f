"""Which backend runs an engine. Third step of `startup`; the heavy library is imported only now, after logging."""

from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from enginery_store.manifest import EngineManifest

from enginery_runtime.backend import Backend
from enginery_runtime.errors import EngineLoadError

_DISTRIBUTIONS = {"ONNXRuntime": "onnxruntime"}
"""Backends this program knows, and the installed package whose version is theirs."""


def installed_backends() -> dict[str, str]:
    """Exact versions of the backends of this image, without importing them."""
    found = {}
    for backend, distribution in _DISTRIBUTIONS.items():
        try:
            found[backend] = version(distribution)
        except PackageNotFoundError:
            continue
    return found


def load(manifest: EngineManifest, path: Path, threads: int) -> Backend:
    """The opened engine; raises EngineLoadError."""
    if manifest.backend != "ONNXRuntime":
        raise EngineLoadError(f"this server has no backend {manifest.backend}")
    from enginery_runtime.onnxruntime_backend import OnnxRuntimeBackend

    backend = OnnxRuntimeBackend()
    backend.open(path, manifest, threads)
    return backend
