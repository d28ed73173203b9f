"""Runs the real builder as a subprocess against a real S3 server, as its Job would. Used by tests/integration."""

import json
import os
import platform
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import onnxruntime
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from enginery_store.identity import digest_of
from enginery_store.manifest import BuildOptions, EngineManifest, PreparedManifest, ShapeProfile, Target, parse_document
from enginery_store.requests import (
    BuildRequest,
    EvaluationRef,
    ModelRef,
    Outcome,
    PrecisionRef,
    PrepareRequest,
    SourceRef,
    TerminationMessage,
)
from support.s3_servers import Bucket

ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
MODEL = ModelRef(namespace="team-a", name="m", revision="m-1")


@dataclass(frozen=True)
class Ended:
    """What a finished container leaves."""

    code: int
    log: str
    message: TerminationMessage | None

    @property
    def reason(self) -> str:
        assert self.message is not None, self.log
        return self.message.reason

    @property
    def text(self) -> str:
        assert self.message is not None, self.log
        return self.message.message


@dataclass
class Workbench:
    """A pod's folders, a tenant's prefix in a bucket, and a signing key."""

    folder: Path
    bucket: Bucket
    endpoint: str = ""
    """Where the builder finds the store; the server itself unless a test puts a proxy between."""
    prefix_key: str = "tenants/team-a"
    key: Ed25519PrivateKey = field(default_factory=Ed25519PrivateKey.generate)
    environment: dict[str, str] = field(default_factory=dict)
    launcher: tuple[str, ...] = ()
    """Command that starts the builder as its child, for what wants to measure it."""

    def __post_init__(self) -> None:
        secret = self.folder / "credentials" / "store"
        secret.mkdir(parents=True)
        (secret / "AWS_ACCESS_KEY_ID").write_text(self.bucket.server.access_key)
        (secret / "AWS_SECRET_ACCESS_KEY").write_text(self.bucket.server.secret_key)
        private = self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        (secret / "signing.key").write_bytes(private)

    @property
    def secret(self) -> Path:
        return self.folder / "credentials" / "store"

    @property
    def public_key(self) -> str:
        return self.key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()

    @property
    def prefix(self) -> str:
        return f"s3://{self.bucket.name}/{self.prefix_key}/"

    def upload(self, key: str, data: bytes) -> str:
        """Put an object; returns its URI."""
        self.bucket.put(key, data)
        return f"s3://{self.bucket.name}/{key}"

    def prepare_request(self, uri: str, profiles: list[ShapeProfile] | None = None, **changes: Any) -> PrepareRequest:
        source = SourceRef(uri=uri, format=changes.pop("format", "ONNX"), digest=changes.pop("digest", ""))
        source = source.model_copy(update={"task": changes.pop("task", "")})
        source = source.model_copy(update={"fingerprint": changes.pop("fingerprint", "")})
        access = self.bucket.server.access.model_copy(
            update={"endpoint": self.endpoint or self.bucket.server.endpoint, **changes.pop("access", {})}
        )
        fields: dict[str, Any] = {
            "key": digest_of({"request": uri, "n": changes.pop("n", 0)}),
            "model": MODEL,
            "store": access,
            "source_store": access,
            "prefix": self.prefix,
            "source": source,
            "precision": _precision(changes.pop("precision", "FP32")),
            "profiles": profiles or [],
            "max_source_bytes": 1 << 30,
            "timeout_seconds": 120,
        }
        return PrepareRequest(**(fields | changes))

    def build_request(
        self, prepared_key: str, profiles: list[ShapeProfile] | None = None, **changes: Any
    ) -> BuildRequest:
        access = self.bucket.server.access.model_copy(update={"endpoint": self.endpoint or self.bucket.server.endpoint})
        fields: dict[str, Any] = {
            "key": digest_of({"engine": prepared_key, "n": changes.pop("n", 0)}),
            "model": MODEL,
            "store": access,
            "source_store": access,
            "prefix": self.prefix,
            "prepared_key": prepared_key,
            "backend": "ONNXRuntime",
            "backend_version": onnxruntime.__version__,
            "target": Target(accelerator="CPU", architecture=ARCHITECTURE),
            "precision": PrecisionRef(type="FP32"),
            "profiles": profiles or [],
            "options": BuildOptions(),
            "evaluation": None,
            "timeout_seconds": 120,
        }
        return BuildRequest(**(fields | changes))

    def start(self, request: PrepareRequest | BuildRequest, command: str = "") -> "subprocess.Popen[str]":
        """The container with this argument; the request's own kind unless given."""
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "ENGINERY_CREDENTIALS_ROOT": str(self.folder / "credentials"),
            "ENGINERY_WORK_FOLDER": str(self.folder / "work"),
            "ENGINERY_TERMINATION_LOG": str(self.folder / "termination-log"),
            "ENGINERY_REQUEST": request.to_json().decode(),
            "AWS_EC2_METADATA_DISABLED": "true",
            **self.environment,
        }
        (self.folder / "termination-log").unlink(missing_ok=True)
        program = [*self.launcher, sys.executable, "-m", "enginery_builder", command or request.kind.lower()]
        return subprocess.Popen(program, env=environment, stderr=subprocess.PIPE, text=True)

    def ended(self, process: "subprocess.Popen[str]") -> Ended:
        _, log = process.communicate(timeout=600)
        path = self.folder / "termination-log"
        message = parse_document(TerminationMessage, path.read_bytes()) if path.is_file() else None
        return Ended(process.returncode, log, message)

    def run(self, request: PrepareRequest | BuildRequest, command: str = "") -> Ended:
        return self.ended(self.start(request, command))

    def outcome(self, key: str) -> Outcome | None:
        place = f"{self.prefix_key}/requests/{key}.json"
        return parse_document(Outcome, self.bucket.get(place)) if place in self.bucket.keys(place) else None

    def prepared(self, key: str) -> PreparedManifest:
        place = f"{self.prefix_key}/prepared/{key[:2]}/{key}/manifest.json"
        return parse_document(PreparedManifest, self.bucket.get(place))

    def engine_key_prefix(self, key: str) -> str:
        return f"{self.prefix_key}/engines/{key[:2]}/{key}/"

    def engine(self, key: str) -> EngineManifest:
        return parse_document(EngineManifest, self.bucket.get(f"{self.engine_key_prefix(key)}manifest.json"))

    def prepare(self, uri: str, profiles: list[ShapeProfile] | None = None, **changes: Any) -> str:
        """Prepare a source that is known to be good; returns the prepared key."""
        request = self.prepare_request(uri, profiles, **changes)
        ended = self.run(request)
        assert ended.code == 0, (ended.message, ended.log)
        outcome = self.outcome(request.key)
        assert outcome is not None
        return outcome.prepared_key


def _precision(given: Any) -> PrecisionRef:
    """An order, or only its type."""
    return given if isinstance(given, PrecisionRef) else PrecisionRef(type=given)


def evaluation(uri: str, metric: Any, samples: int) -> EvaluationRef:
    return EvaluationRef.model_validate_json(
        json.dumps({"uri": uri, "metric": metric, "samples": samples, "maxDegradation": "0.01"})
    )
