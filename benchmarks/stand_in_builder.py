"""Answers builder Jobs whose pods are simulated: publishes what the request asks for, without a container.

Called by `scale.py`. It reads the same request documents, and writes the same outcomes and signed manifests, as the
builder; the engine's bytes are a few random ones, as nothing loads them.
"""

import json
import subprocess
import threading
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from enginery_cluster.state import Cluster
from enginery_store.client import Credentials, StoreClient
from enginery_store.identity import prepared_key
from enginery_store.layout import (
    MANIFEST_NAME,
    PREPARED_MODEL_NAME,
    SIGNATURE_NAME,
    engine_folder,
    parse_uri,
    prepared_folder,
    request_object,
)
from enginery_store.manifest import (
    AccuracyRecord,
    DeviceFacts,
    EngineManifest,
    LatencyRecord,
    StoredFile,
    parse_document,
)
from enginery_store.reasons import Reason
from enginery_store.requests import BuildRequest, Outcome, PrepareRequest
from enginery_store.signing import sign

_NOTHING = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
"""sha256 of no bytes."""


@dataclass
class StandInBuilder:
    """Watches Jobs of a namespace and answers each once."""

    cluster: Cluster
    namespace: str
    credentials: Credentials
    signing_key: bytes
    answered: set[str] = field(default_factory=set)
    _process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Begin to watch, in a thread."""
        template = "{.metadata.name} {.spec.template.spec.containers[0].env[0].value}{'\\n'}"
        command = [self.cluster.kubectl, "get", "jobs", "-n", self.namespace, "-w", "-o", f"jsonpath={template}"]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        threading.Thread(target=self._read, daemon=True).start()

    def stop(self) -> None:
        """End the watch."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait()

    def _read(self) -> None:
        assert self._process is not None and self._process.stdout is not None  # noqa: PT018
        client: StoreClient | None = None
        for line in self._process.stdout:
            name, request = line.rstrip("\n").split(" ", 1)
            if name in self.answered:
                continue
            self.answered.add(name)
            document: dict[str, Any] = json.loads(request)
            if client is None:
                client = StoreClient(parse_document(PrepareRequest, request).store, self.credentials)
            if document["kind"] == "Prepare":
                self._prepare(client, parse_document(PrepareRequest, request))
            else:
                self._build(client, parse_document(BuildRequest, request))

    def _prepare(self, client: StoreClient, request: PrepareRequest) -> None:
        digest = f"sha256:{request.key}"  # every source is its own content here
        outcome = Outcome(
            key=request.key,
            reason=Reason.DIGEST_RECORDED,
            prepared_key=prepared_key(source_digest=digest, source_format="ONNX", precision={"type": "FP32"}),
            source_digest=digest,
            source_size_bytes=1,
            finished_at=datetime.now(UTC),
        )
        folder = prepared_folder(parse_uri(request.prefix), outcome.prepared_key)
        for name in (PREPARED_MODEL_NAME, MANIFEST_NAME):  # nobody reads them; they are looked for
            client.write(folder / name, b"")
        client.write(request_object(parse_uri(request.prefix), request.key), outcome.to_json())

    def _build(self, client: StoreClient, request: BuildRequest) -> None:
        folder = engine_folder(parse_uri(request.prefix), request.key)
        manifest = EngineManifest(
            key=request.key,
            prepared_key=request.prepared_key,
            source_digest="sha256:0",
            target=request.target,
            backend=request.backend,
            backend_version=request.backend_version,
            file=StoredFile(name="model.onnx", sha256=_NOTHING, size_bytes=0),
            inputs=[],
            outputs=[],
            profiles=[],
            options=request.options,
            precision_requested="FP32",
            precision_effective="FP32",
            accuracy=AccuracyRecord(
                metric="MaxAbsError", reference="0", measured="0", degradation="0", samples=0, data_digest="synthetic"
            ),
            latency=[
                LatencyRecord(profile="default", batch=1, p50_microseconds=1, p99_microseconds=1, items_per_second="1")
            ],
            device=DeviceFacts(name="simulated", architecture="amd64"),
            device_memory_bytes=0,
            build_seconds=0,
            builder_version="stand-in",
            created_at=datetime.now(UTC),
        ).to_json()
        client.write(folder / "model.onnx", b"")
        client.write(folder / SIGNATURE_NAME, sign(self.signing_key, manifest))
        client.write(folder / MANIFEST_NAME, manifest)
