"""Engines published into a store as the builder leaves them: blob, signature, manifest. For tests of the runtime."""

import hashlib
import platform
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version

import onnx
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from enginery_store.client import StoreClient
from enginery_store.identity import digest_of
from enginery_store.layout import MANIFEST_NAME, SIGNATURE_NAME, engine_folder, parse_uri
from enginery_store.manifest import (
    AccuracyRecord,
    BuildOptions,
    DeviceFacts,
    EngineManifest,
    ShapeProfile,
    StoredFile,
    Target,
    TensorSpec,
)
from enginery_store.signing import sign
from support.tiny_models import ONNX_TYPES

_OUR_TYPES = {number: name for name, number in ONNX_TYPES.items()}

HERE = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]


@dataclass(frozen=True)
class SigningKey:
    """A fresh Ed25519 key pair as PEM."""

    private: bytes
    public: str

    @classmethod
    def fresh(cls) -> "SigningKey":
        key = Ed25519PrivateKey.generate()
        private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        return cls(private, public.decode())


def a_manifest(model: bytes, **changes: object) -> EngineManifest:
    """The manifest of an ONNX model for this machine's CPU; `changes` replace fields."""
    graph = onnx.load_model_from_string(model).graph
    fields: dict[str, object] = {
        "key": digest_of({"test": hashlib.sha256(model).hexdigest()}),
        "prepared_key": "b" * 64,
        "source_digest": f"sha256:{'c' * 64}",
        "target": Target(accelerator="CPU", architecture=HERE),
        "backend": "ONNXRuntime",
        "backend_version": version("onnxruntime"),
        "file": StoredFile(name="model.onnx", sha256=hashlib.sha256(model).hexdigest(), size_bytes=len(model)),
        "inputs": _specs(graph.input),
        "outputs": _specs(graph.output),
        "profiles": list[ShapeProfile](),
        "options": BuildOptions(),
        "precision_requested": "FP32",
        "precision_effective": "FP32",
        "accuracy": AccuracyRecord(
            metric="MaxAbsError", reference="0", measured="0", degradation="0", samples=1, data_digest="synthetic"
        ),
        "latency": [],
        "device": DeviceFacts(name="cpu", architecture=HERE),
        "device_memory_bytes": 0,
        "build_seconds": 1,
        "builder_version": version("enginery"),
        "created_at": datetime(2026, 1, 1, tzinfo=UTC),
    }
    return EngineManifest.model_validate(fields | changes)


def publish(
    store: StoreClient, prefix: str, model: bytes, manifest: EngineManifest, key: SigningKey, *, under: str = ""
) -> None:
    """Store an engine under its key, or under another one."""
    folder = engine_folder(parse_uri(prefix), under or manifest.key)
    store.write(folder / manifest.file.name, model)
    document = manifest.to_json()
    store.write(folder / SIGNATURE_NAME, sign(key.private, document))
    store.write(folder / MANIFEST_NAME, document)


def _specs(values: object) -> list[TensorSpec]:
    return [
        TensorSpec(
            name=value.name,
            datatype=_OUR_TYPES[value.type.tensor_type.elem_type],
            shape=[item.dim_value if item.HasField("dim_value") else -1 for item in value.type.tensor_type.shape.dim],
        )
        for value in values  # type: ignore[attr-defined]
    ]
