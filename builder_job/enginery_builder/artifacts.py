"""Frozen values that one step hands to the next. Called by every step; the steps themselves never meet.

The file part of each lies in the work folder of one run, which ends with the run.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from enginery_store.client import FileDigest
from enginery_store.manifest import (
    AccuracyRecord,
    CalibrationRecord,
    DeviceFacts,
    LatencyRecord,
    PreparedManifest,
    TensorSpec,
)

from enginery_builder.backend import Compiled


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
    shape_inputs: tuple[str, ...] = ()
    """Inputs whose values are sizes; ranges of profiles hold their values."""
    notes: tuple[str, ...] = ()
    """What is legal and probably not meant, one sentence each."""


@dataclass(frozen=True)
class ConvertedModel:
    """The model as it will be stored: `files` are the model, then its external data, all in one folder."""

    files: tuple[Path, ...]
    checked: CheckedModel
    precision: str
    reference: tuple[Path, ...] = ()
    """The FP32 model and its external data, in the same folder; empty where `files` are it."""
    calibration: CalibrationRecord | None = None
    kept_nodes: tuple[str, ...] = ()
    """Nodes that stay in FP32."""
    notes: tuple[str, ...] = ()
    """What a person should know of the conversion."""
    measured_on: Mapping[str, str | int] = field(default_factory=dict)
    """What of the inputs that activations were measured on decides the files; empty where nothing was measured."""


@dataclass(frozen=True)
class FetchedModel:
    """A prepared model from the store, its digests verified."""

    path: Path
    manifest: PreparedManifest
    reference: Path
    """The FP32 model that engines are compared with; `path` itself where that is FP32."""


@dataclass(frozen=True)
class CompiledEngine:
    """What a backend made, and what making it took."""

    compiled: Compiled
    build_seconds: int
    peak_memory_bytes: int

    @property
    def files(self) -> tuple[Path, ...]:
        """The engine, then files it refers to by name, all in one folder."""
        return self.compiled.files


@dataclass(frozen=True)
class Measured:
    """What the engine did on the device it was compiled on."""

    accuracy: AccuracyRecord
    latency: tuple[LatencyRecord, ...]
    memory_bytes: int
    device: DeviceFacts
