"""Everything a runtime needs around it: a bucket, a signing key, published engines and orders for them."""

import uuid
from pathlib import Path

from enginery_store.manifest import EngineManifest
from enginery_store.requests import Batching, EngineRef, ModelRef, ServeRequest
from support.published import SigningKey, a_manifest, publish
from support.runtime_process import RuntimeProcess
from support.s3_servers import S3Server


class Stage:
    """One bucket; processes started from it end with the test that started them, as context managers."""

    def __init__(self, server: S3Server, folder: Path) -> None:
        self.server = server
        self.bucket = server.bucket()
        self.folder = folder
        self.key = SigningKey.fresh()
        self.prefix = f"s3://{self.bucket.name}/tenant"

    def publish(
        self,
        model: bytes,
        *,
        blob: bytes | None = None,
        under: str = "",
        key: SigningKey | None = None,
        **changes: object,
    ) -> EngineManifest:
        """Publish a model as an engine; `changes` replace fields of its manifest, `blob` the model's file."""
        manifest = a_manifest(model, **changes)
        client = self.bucket.client()
        publish(client, self.prefix, model if blob is None else blob, manifest, key or self.key, under=under)
        client.close()
        return manifest

    def order(self, *manifests: EngineManifest, name: str = "tiny", **changes: object) -> ServeRequest:
        """The operator's order to serve one of these engines."""
        fields: dict[str, object] = {
            "model": ModelRef(namespace="team", name=name, revision=f"{name}-12345678"),
            "store": self.server.access,
            "prefix": self.prefix,
            "engines": [EngineRef(target=manifest.target, key=manifest.key) for manifest in manifests],
            "public_keys": [self.key.public],
            "batching": Batching(),
            "warmup_requests": 2,
        }
        return ServeRequest.model_validate(fields | changes)

    def runtime(self, order: ServeRequest | None, **settings: object) -> RuntimeProcess:
        """A process for the order, not started yet; settings by their names without prefix."""
        variables = {f"ENGINERY_RUNTIME_{name.upper()}": str(value) for name, value in settings.items()}
        folder = self.folder / uuid.uuid4().hex[:8]
        return RuntimeProcess(order, folder, self.server.credentials, variables)
