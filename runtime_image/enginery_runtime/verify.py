"""Whether what was fetched is what the operator ordered and this process can run. Second step of `startup`; pure."""

from collections.abc import Sequence

from enginery_store.manifest import DeviceFacts, EngineManifest, parse_document
from enginery_store.signing import verify

from enginery_runtime.device import fits, target_here
from enginery_runtime.errors import EngineDeviceMismatchError, EngineVerificationError


def verify_manifest(key: str, manifest: bytes, signature: bytes | None, public_keys: Sequence[str]) -> EngineManifest:
    """The manifest, once a trusted key signed these bytes and they speak of the engine asked for.

    Raises SignatureError, DocumentError, or EngineVerificationError for the genuine manifest of another engine.
    """
    if public_keys:
        if signature is None:
            raise EngineVerificationError("a signature is required, and the manifest has none")
        verify(public_keys, manifest, signature)
    document = parse_document(EngineManifest, manifest)
    if document.key != key:
        raise EngineVerificationError(f"the manifest under key {key} is that of engine {document.key}")
    return document


def require_runnable(manifest: EngineManifest, device: DeviceFacts, version: str) -> None:
    """Raise EngineDeviceMismatchError unless the engine was built for this device, with this version of its backend.

    `version` is empty where this image has no such backend.
    """
    if not fits(manifest.target, device):
        raise EngineDeviceMismatchError(
            f"the engine was built for {manifest.target.name}, this device is {target_here(device)}"
        )
    _require_same_size(manifest.device, device)
    if not version:
        raise EngineDeviceMismatchError(
            f"the engine needs {manifest.backend}, which this image does not have; serve it with the image for"
            f" {manifest.backend}"
        )
    if version != manifest.backend_version:
        raise EngineDeviceMismatchError(
            f"the engine was built with {manifest.backend} {manifest.backend_version}, this image has {version}"
        )


def _require_same_size(built_on: DeviceFacts, device: DeviceFacts) -> None:
    """Products are sold under one name with different chips; an engine compiled on a CPU knows none."""
    if not built_on.compute_capability or built_on.multiprocessors == device.multiprocessors:
        return
    raise EngineDeviceMismatchError(
        f"the engine was built on {built_on.multiprocessors} multiprocessors, this {device.name} has"
        f" {device.multiprocessors}; it must be built here"
    )
