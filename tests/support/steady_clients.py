"""Clients that ask a model all the time, one over kept-alive REST and one over gRPC, and remember each answer's kind.

Called by the tests in e2e/ that say "and nobody notices". A refused, broken or wrong answer is a fault; nothing is
asked twice.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

import grpc
import httpx
import numpy as np
from enginery_runtime.oip import grpc_service_pb2 as pb
from support.oip import SERVICE, grpc_request

X = [1.0, 2.0, 3.0, 4.0]


class SteadyClients:
    """Asks a linear model for x = 1, 2, 3, 4; `names` says what an answer is called by its numbers."""

    def __init__(self, address: str, model: str, names: dict[tuple[float, ...], str], pause: float = 0.02) -> None:
        self._address, self._model, self._names, self._pause = address, model, names, pause
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._loop, args=(ask,)) for ask in (self._rest, self._rpc)]
        self.answers: Counter[str] = Counter()
        """Right answers, by protocol and name: `REST old`."""
        self.faults: list[str] = []
        self.longest_seconds = 0.0

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(30)

    def count(self, name: str) -> int:
        """Answers of this name, of the protocol that had fewer."""
        return min(self.answers[f"{protocol} {name}"] for protocol in ("REST", "GRPC"))

    def _loop(self, session: Callable[[Callable[[str, Callable[[], list[float]]], None]], None]) -> None:
        session(self._judge)

    def _judge(self, protocol: str, ask: Callable[[], list[float]]) -> None:
        started = time.monotonic()
        try:
            name = self._names.get(tuple(ask()))
            if name is None:
                self.faults.append(f"{protocol}: a wrong answer")
            else:
                self.answers[f"{protocol} {name}"] += 1
        except (httpx.HTTPError, grpc.RpcError, ValueError, KeyError) as error:
            self.faults.append(f"{protocol} after {time.monotonic() - started:.2f} s: {error!r}"[:500])
        self.longest_seconds = max(self.longest_seconds, time.monotonic() - started)

    def _rest(self, judge: Callable[[str, Callable[[], list[float]]], None]) -> None:
        tensor = {"name": "x", "shape": [1, len(X)], "datatype": "FP32", "data": X}
        with httpx.Client(base_url=f"http://{self._address}:8000", timeout=10) as client:

            def ask() -> list[float]:
                answer = client.post(f"/v2/models/{self._model}/infer", json={"inputs": [tensor]})
                answer.raise_for_status()
                data: list[float] = answer.json()["outputs"][0]["data"]
                return data

            while not self._stop.wait(self._pause):
                judge("REST", ask)

    def _rpc(self, judge: Callable[[str, Callable[[], list[float]]], None]) -> None:
        message = grpc_request(self._model, ("x", "FP32", np.array([X], np.float32)))
        with grpc.insecure_channel(f"{self._address}:8001") as channel:
            call: Any = channel.unary_unary(
                f"{SERVICE}ModelInfer",
                request_serializer=pb.ModelInferRequest.SerializeToString,
                response_deserializer=pb.ModelInferResponse.FromString,
            )

            def ask() -> list[float]:
                raw = call(message, timeout=10).raw_output_contents[0]
                numbers: list[float] = np.frombuffer(raw, np.float32).tolist()
                return numbers

            while not self._stop.wait(self._pause):
                judge("GRPC", ask)
