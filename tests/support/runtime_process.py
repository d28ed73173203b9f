"""A real runtime process on ports of its own, as a pod would run it. Tests start it, talk to it and signal it."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

import httpx
from enginery_store.client import Credentials
from enginery_store.requests import REQUEST_VARIABLE, ServeRequest
from support.eventually import eventually

READY_TIMEOUT_SECONDS = 60.0


def free_ports(count: int) -> list[int]:
    """Ports nobody listens on now."""
    sockets = [socket.socket() for _ in range(count)]
    for item in sockets:
        item.bind(("127.0.0.1", 0))
    ports = [item.getsockname()[1] for item in sockets]
    for item in sockets:
        item.close()
    return ports


@dataclass
class RuntimeProcess:
    """`python -m enginery_runtime` with an order; use it as a context manager, so that it never outlives a test."""

    request: ServeRequest | None
    folder: Path
    credentials: Credentials
    settings: dict[str, str] = field(default_factory=dict)
    process: subprocess.Popen[bytes] = field(init=False)

    def __post_init__(self) -> None:
        self.rest_port, self.grpc_port, self.metrics_port = free_ports(3)
        self.folder.mkdir(parents=True, exist_ok=True)
        credentials = self.folder / "secrets" / "store"
        credentials.mkdir(parents=True, exist_ok=True)
        (credentials / "AWS_ACCESS_KEY_ID").write_text(self.credentials.access_key or "")
        (credentials / "AWS_SECRET_ACCESS_KEY").write_text(self.credentials.secret_key or "")

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.rest_port}"

    @property
    def grpc_address(self) -> str:
        return f"127.0.0.1:{self.grpc_port}"

    def start(self) -> Self:
        environment = {
            "PATH": os.environ["PATH"],
            "ENGINERY_CREDENTIALS_ROOT": str(self.folder / "secrets"),
            "ENGINERY_TERMINATION_LOG": str(self.folder / "termination-log"),
            "ENGINERY_RUNTIME_HOST": "127.0.0.1",
            "ENGINERY_RUNTIME_REST_PORT": str(self.rest_port),
            "ENGINERY_RUNTIME_GRPC_PORT": str(self.grpc_port),
            "ENGINERY_RUNTIME_METRICS_PORT": str(self.metrics_port),
            "ENGINERY_RUNTIME_WORK_FOLDER": str(self.folder / "work"),
            "ENGINERY_RUNTIME_STORE_PATIENCE_SECONDS": "2",
            "ENGINERY_RUNTIME_DRAIN_DELAY_SECONDS": "0",
            **self.settings,
        }
        if self.request is not None:
            environment[REQUEST_VARIABLE] = self.request.model_dump_json(by_alias=True)
        with (self.folder / "log").open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-W", "ignore", "-m", "enginery_runtime"], env=environment, stdout=log, stderr=log
            )
        return self

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(10)
        if kind is not None:
            print(self.log())

    def log(self) -> str:
        return (self.folder / "log").read_text()

    def get(self, path: str) -> httpx.Response:
        return httpx.get(f"{self.url}{path}", timeout=10)

    def infer(self, model: str, document: object) -> httpx.Response:
        return httpx.post(f"{self.url}/v2/models/{model}/infer", json=document, timeout=30)

    def metrics(self) -> str:
        return httpx.get(f"http://127.0.0.1:{self.metrics_port}/metrics", timeout=10).text

    def is_ready(self) -> bool:
        assert self.process.poll() is None, f"ended with {self.process.returncode}: {self.log()}"
        try:
            return self.get("/v2/health/ready").status_code == 200
        except httpx.TransportError:
            return False

    def wait_ready(self) -> Self:
        give_up = time.monotonic() + READY_TIMEOUT_SECONDS
        while not self.is_ready():
            if time.monotonic() > give_up:
                raise AssertionError(f"not ready: {self.log()}")
            time.sleep(0.05)
        return self

    def wait_open(self) -> Self:
        """Until the ports answer, whatever they say."""
        eventually(self._is_open, READY_TIMEOUT_SECONDS, 0.02)
        return self

    def _is_open(self) -> bool:
        try:
            return bool(self.get("/v2/health/live").status_code)
        except httpx.TransportError:
            return False

    def terminate(self) -> None:
        self.process.send_signal(signal.SIGTERM)

    def wait_end(self, timeout_seconds: float = 60.0) -> int:
        return self.process.wait(timeout_seconds)

    def termination(self) -> dict[str, object]:
        document: dict[str, object] = json.loads((self.folder / "termination-log").read_text())
        return document
