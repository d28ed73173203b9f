"""An HTTP proxy before a real S3 server: cuts, alters, stalls, refuses on order. For tests of store and builder.

    with s3_proxy(server.endpoint) as proxy:
        proxy.add(cut(0.6, method="GET", path="engine.plan", times=2))
        StoreClient(access with endpoint=proxy.endpoint, ...)

The Host header passes unchanged, so signatures made for the proxy's address hold at servers that check them.
"""

import http.client
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

FOREVER = 1 << 30


@dataclass
class Exchange:
    """One request, and the answer as it will be sent."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    status: int = 0
    answer_headers: list[tuple[str, str]] = field(default_factory=list)
    answer: bytes = b""
    promised: int | None = None
    """Content-Length to claim, where it is not the truth."""

    def refuse(self, status: int, code: str) -> None:
        self.status, self.answer_headers = status, [("Content-Type", "application/xml")]
        self.answer = f"<Error><Code>{code}</Code><Message>by order of a test</Message></Error>".encode()


@dataclass
class Fault:
    """What to do to which requests, and how often."""

    act: Callable[[Exchange, threading.Event], None]
    before: bool = False
    """Acts before the request goes on; it goes nowhere if the act sets a status."""
    method: str = ""
    path: str = ""
    """Part of the decoded path, query included."""
    times: int = FOREVER

    def meets(self, exchange: Exchange) -> bool:
        fits = (not self.method or self.method == exchange.method) and self.path in exchange.path
        return fits and self.times > 0


def cut(share: float, **where: Any) -> Fault:
    """Promise the whole body, send a share of it and close the connection."""

    def act(exchange: Exchange, _stop: threading.Event) -> None:
        exchange.promised = len(exchange.answer)
        exchange.answer = exchange.answer[: int(len(exchange.answer) * share)]

    return Fault(act, **where)


def flip(offset: int, **where: Any) -> Fault:
    """Alter one byte of the body."""

    def act(exchange: Exchange, _stop: threading.Event) -> None:
        body = bytearray(exchange.answer)
        body[offset] ^= 0xFF
        exchange.answer = bytes(body)

    return Fault(act, **where)


def stall(seconds: float, **where: Any) -> Fault:
    """Accept the request and say nothing for a while."""
    return Fault(lambda _exchange, stop: stop.wait(seconds) and None, before=True, **where)


def refuse(status: int, code: str, **where: Any) -> Fault:
    """Answer with an error of S3's form."""
    return Fault(lambda exchange, _stop: exchange.refuse(status, code), before=True, **where)


def whole_for_range(**where: Any) -> Fault:
    """Ignore Range: the server is asked without it, and answers 200 with everything."""

    def act(exchange: Exchange, _stop: threading.Event) -> None:
        exchange.headers = {name: value for name, value in exchange.headers.items() if name.lower() != "range"}

    return Fault(act, before=True, **where)


def refuse_checksums() -> Fault:
    """A store that knows nothing of the SDK's checksum headers and trailers, as many do."""

    def act(exchange: Exchange, _stop: threading.Event) -> None:
        headers = {name.lower(): value.lower() for name, value in exchange.headers.items()}
        new = {"x-amz-sdk-checksum-algorithm", "x-amz-trailer"} & headers.keys()
        if new or "aws-chunked" in headers.get("content-encoding", ""):
            exchange.refuse(400, "InvalidArgument")
        if exchange.method == "POST" and "delete" in exchange.path and "content-md5" not in headers:
            exchange.refuse(400, "InvalidRequest")

    return Fault(act, before=True)


@dataclass
class S3Proxy:
    """A running proxy; faults may be added and removed at any time."""

    endpoint: str
    faults: list[Fault]
    seen: list[Exchange]
    """Every request, in the order of arrival."""

    def add(self, fault: Fault) -> None:
        self.faults.append(fault)

    def heal(self) -> None:
        self.faults.clear()


@contextmanager
def s3_proxy(upstream: str) -> Iterator[S3Proxy]:
    stop = threading.Event()
    proxy = S3Proxy("", [], [])
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(proxy, urlsplit(upstream).netloc, stop))
    server.daemon_threads = True
    proxy.endpoint = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, name="s3-proxy", daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        stop.set()
        server.shutdown()
        thread.join()
        server.server_close()


def _handler(proxy: S3Proxy, upstream: str, stop: threading.Event) -> type[BaseHTTPRequestHandler]:
    lock = threading.Lock()

    def apply(exchange: Exchange, *, before: bool) -> None:
        with lock:
            due = [fault for fault in proxy.faults if fault.before == before and fault.meets(exchange)]
            for fault in due:
                fault.times -= 1
        for fault in due:
            fault.act(exchange, stop)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_args: Any) -> None:
            """Nothing; tests look at `seen`."""

        def handle_one_request(self) -> None:
            try:
                super().handle_one_request()
            except (ConnectionError, TimeoutError):
                self.close_connection = True

        def _exchange(self) -> None:
            exchange = Exchange(self.command, unquote(self.path), dict(self.headers.items()), self._body())
            proxy.seen.append(exchange)
            apply(exchange, before=True)
            if not exchange.status:
                _forward(exchange, self.path, upstream)
                apply(exchange, before=False)
            self._send(exchange)

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _exchange  # noqa: N815 - names the base class looks for

        def _body(self) -> bytes:
            if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
                return self.rfile.read(int(self.headers.get("Content-Length", 0)))
            body = b""
            while size := int(self.rfile.readline().split(b";")[0], 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return body

        def _send(self, exchange: Exchange) -> None:
            self.send_response_only(exchange.status)
            own = {"content-length", "transfer-encoding", "connection"}
            length = str(len(exchange.answer) if exchange.promised is None else exchange.promised)
            for name, value in exchange.answer_headers:
                if name.lower() not in own:
                    self.send_header(name, value)
                elif exchange.method == "HEAD" and name.lower() == "content-length":
                    length = value
            self.send_header("Content-Length", length)
            self.end_headers()
            if exchange.method != "HEAD":
                self.wfile.write(exchange.answer)
            if exchange.promised is not None:
                self.close_connection = True

    return Handler


def _forward(exchange: Exchange, raw_path: str, upstream: str) -> None:
    connection = http.client.HTTPConnection(upstream, timeout=60)
    try:
        connection.putrequest(exchange.method, raw_path, skip_host=True, skip_accept_encoding=True)
        for name, value in exchange.headers.items():
            if name.lower() not in {"expect", "content-length", "transfer-encoding", "connection"}:
                connection.putheader(name, value)
        connection.putheader("Content-Length", str(len(exchange.body)))
        connection.endheaders(exchange.body or None)
        response = connection.getresponse()
        exchange.status, exchange.answer_headers = response.status, response.getheaders()
        exchange.answer = response.read()
    finally:
        connection.close()
