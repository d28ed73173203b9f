"""The seam between the server and what runs engines: all the server knows of a backend.

`load` picks an implementation by the manifest's backend; `instance` calls it from one thread of its own. GPUs have
`tensorrt_backend`, CPUs `onnxruntime_backend`. Heavy imports stay behind it.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from enginery_store.manifest import DeviceFacts, EngineManifest

from enginery_runtime.datatypes import Array


class Backend(Protocol):
    """One engine, opened on one device. `infer` is never called by two threads at a time."""

    def open(self, path: Path, manifest: EngineManifest, threads: int) -> None:
        """Load the engine and compare it with its manifest; raises EngineLoadError that says what differs."""

    def infer(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """All outputs for one batch.

        Raises InvalidRequestError when the engine refuses these inputs; any other exception is a fault, after which
        the caller tries the engine again before it is trusted.
        """

    def device(self) -> DeviceFacts:
        """The device in hand."""

    def close(self) -> None:
        """Give the engine's memory back."""
