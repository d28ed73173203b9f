"""A client that asks all the time, in a thread, and remembers whether anything but the right answer came back."""

import threading
from types import TracebackType
from typing import Self

import httpx


class HealthyClient:
    """Posts one body over and over on one connection; `faults` holds what went wrong."""

    def __init__(self, url: str, body: dict[str, object], want: object) -> None:
        self._url = url
        self._body = body
        self._want = want
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.answers = 0
        self.faults: list[str] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join(30)

    def _run(self) -> None:
        with httpx.Client(timeout=10) as client:
            while not self._stop.wait(0.005):
                try:
                    answer = client.post(self._url, json=self._body)
                    if answer.status_code != 200 or answer.json()["outputs"][0]["data"] != self._want:
                        self.faults.append(answer.text)
                    self.answers += 1
                except (httpx.HTTPError, ValueError, KeyError) as error:
                    self.faults.append(repr(error))
