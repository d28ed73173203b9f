"""Whether what was fetched is what the operator ordered and this process can run. Second step of `startup`; pure."""

from collections.abc import Mapping, Sequence

from enginery_store.manifest import DeviceFacts, EngineManifest, parse_document
from enginery_store.signing import verify

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


def require_runnable(manifest: EngineManifest, device: DeviceFacts, versions: Mapping[str, str]) -> None:
    """Raise EngineDeviceMismatchError unless the engine was built for this device and one of these backends.

    `versions` maps the backends of this image to their exact versions.
    """
    if manifest.target.accelerator != "CPU" or manifest.target.architecture != device.architecture:
        raise EngineDeviceMismatchError(
            f"the engine was built for {manifest.target.name}, this device is cpu-{device.architecture}"
        )
    have = versions.get(manifest.backend)
    if have is None:
        raise EngineDeviceMismatchError(f"the engine needs {manifest.backend}, this image has {sorted(versions)}")
    if have != manifest.backend_version:
        raise EngineDeviceMismatchError(
            f"the engine was built with {manifest.backend} {manifest.backend_version}, this image has {have}"
        )
