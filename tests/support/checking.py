"""Runs the builder's own checks on a source, without a store. Used by the unit tests of the builder."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import onnx
from enginery_builder import check
from enginery_builder.artifacts import CheckedModel, FetchedFiles
from enginery_store.client import file_digest
from enginery_store.identity import content_digest
from enginery_store.manifest import ShapeProfile
from enginery_store.requests import ModelRef, PrecisionRef, PrepareRequest, SourceRef, StoreAccess
from support.onnx_cases.case import MODEL_NAME

Files = dict[str, bytes]
Source = Files | bytes | onnx.ModelProto


def fetched(folder: Path, made: Source) -> FetchedFiles:
    """The source as `fetch` would leave it."""
    data = made.SerializeToString() if isinstance(made, onnx.ModelProto) else made
    files = data if isinstance(data, dict) else {MODEL_NAME: data}
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    digests = {name: file_digest(folder / name) for name in files}
    return FetchedFiles(folder, digests, content_digest({name: file.sha256 for name, file in digests.items()}))


def request(profiles: Sequence[ShapeProfile] = (), backends: Sequence[str] = (), **changes: Any) -> PrepareRequest:
    """A request as far as the checks read it."""
    fields: dict[str, Any] = {
        "key": "0" * 64,
        "model": ModelRef(namespace="team-a", name="m", revision="m-1"),
        "store": StoreAccess(),
        "source_store": StoreAccess(),
        "prefix": "s3://enginery/team-a/",
        "source": SourceRef(uri="s3://models/m.onnx", format="ONNX"),
        "precision": PrecisionRef(),
        "profiles": list(profiles),
        "backends": list(backends),
        "max_source_bytes": 1 << 30,
        "timeout_seconds": 60,
    }
    return PrepareRequest(**(fields | changes))


def checked(
    folder: Path, made: Source, profiles: Sequence[ShapeProfile] = (), backends: Sequence[str] = (), **changes: Any
) -> CheckedModel:
    """Every check, in the order of `prepare`."""
    found = check.check_model(fetched(folder, made))
    check.check_request(found, request(profiles, backends, **changes))
    return found
