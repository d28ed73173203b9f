"""Frozen values that one step hands to the next. Called by every step; the steps themselves never meet.

The file part of each lies in the work folder of one run, which ends with the run.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from enginery_store.client import FileDigest
from enginery_store.manifest import AccuracyRecord, DeviceFacts, LatencyRecord, PreparedManifest, TensorSpec


@dataclass(frozen=True)
class FetchedFiles:
    """A source or data set on local disk: `files` maps names relative to `folder` to what was received."""

    folder: Path
    files: Mapping[str, FileDigest]
    digest: str
    """`sha256:<hex>` over all of it, as identity.content_digest counts."""

    @property
    def size_bytes(self) -> int:
        """All files together."""
        return sum(file.size_bytes for file in self.files.values())


@dataclass(frozen=True)
class CheckedModel:
    """An ONNX model that passed every check."""

    path: Path
    external: tuple[str, ...]
    """Files that hold its weights, as the model names them: relative to its own folder."""
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    opset: int


@dataclass(frozen=True)
class ConvertedModel:
    """The model as it will be stored: `files` are the model, then its external data, all in one folder."""

    files: tuple[Path, ...]
    checked: CheckedModel
    precision: str


@dataclass(frozen=True)
class FetchedModel:
    """A prepared model from the store, its digests verified."""

    path: Path
    manifest: PreparedManifest


@dataclass(frozen=True)
class CompiledEngine:
    """What a backend made: `files` are the engine, then files it refers to by name, all in one folder."""

    files: tuple[Path, ...]
    build_seconds: int


@dataclass(frozen=True)
class Measured:
    """What the engine did on the device it was compiled on."""

    accuracy: AccuracyRecord
    latency: tuple[LatencyRecord, ...]
    memory_bytes: int
    device: DeviceFacts
