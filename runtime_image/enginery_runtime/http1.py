"""HTTP/1.1 on a socket: an asyncio.Protocol around httptools' parser, for the ports that `http_server` opens.

It knows nothing of inference: `Http1` reads requests within limits, hands each to an application as an `Exchange`, and
writes answers in the order of the requests (pipelining). No task or future per request: an application answers by
calling `Exchange.answer`, now or later.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, cast

import httptools
import orjson

from enginery_runtime.errors import InvalidRequestError, RequestError
from enginery_runtime.http_body import Body
from enginery_runtime.limits import Budget
from enginery_runtime.settings import Settings

MAX_PIPELINED = 64
"""Requests of one connection in work at a time; the next ones stay in the socket."""

LINGER_SECONDS = 2.0
"""After a last answer the connection stays half open this long, so that the client reads it before a reset."""

UNREAD_SECONDS = 60.0
"""A client that reads nothing of its answers for this long is cut off."""

_FOREVER = float("inf")
_HEADS = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus}


class HeaderTooLargeError(RequestError):
    """Request line and headers are larger than they may be."""

    status = 431
    code = "RESOURCE_EXHAUSTED"


class SlowClientError(RequestError):
    """The client did not finish its request in time."""

    status = 408
    code = "DEADLINE_EXCEEDED"


class Exchange:
    """One request, and the place its answer goes to."""

    __slots__ = ("_connection", "body", "close", "headers", "method", "on_hangup", "reading", "reply", "url")

    def __init__(self, connection: "Http1") -> None:
        self._connection = connection
        self.method = b""
        self.url = b""
        self.headers: dict[bytes, bytes] = {}
        """Lower-case names; of repeated headers the last."""
        self.reading = Body(connection.port.settings.max_request_bytes, connection.port.budget)
        self.body: bytes | bytearray = b""
        """The whole body, once the application sees the exchange."""
        self.close = False
        self.reply: bytes | None = None
        self.on_hangup: Callable[[], None] | None = None
        """Called when the client goes away before the answer."""

    def answer(self, status: int, body: bytes, content_type: bytes = b"application/json", extra: bytes = b"") -> None:
        """Send the answer; `extra` holds whole header lines. A second call is ignored."""
        if self.reply is not None:
            return
        connection = self._connection
        self.close = self.close or connection.port.leaving()
        head = b"%bContent-Type: %b\r\nContent-Length: %d\r\n%b%b\r\n" % (
            _HEADS.get(status) or b"HTTP/1.1 %d Error\r\n" % status,
            content_type,
            len(body),
            extra,
            b"Connection: close\r\n" if self.close else b"",
        )
        self.reply = head if self.method == b"HEAD" else head + body
        connection.answered(self)

    def refuse(self, error: RequestError, extra: bytes = b"") -> None:
        """Answer with the protocol's error form."""
        if error.retry_after_seconds is not None:
            extra += b"Retry-After: %d\r\n" % error.retry_after_seconds
        self.answer(error.status, orjson.dumps({"error": error.message}), extra=extra)


@dataclass(slots=True)
class Port:
    """What the connections of one port share; `http_server` makes it."""

    application: Callable[[Exchange], None]
    """Answers every exchange, now or later, and never raises."""
    settings: Settings
    budget: Budget
    leaving: Callable[[], bool]
    """Whether clients should look for another address."""
    connections: set["Http1"] = field(default_factory=set)


class Http1(asyncio.Protocol):
    """One connection. Names that begin with `on_` are the parser's callbacks."""

    def __init__(self, port: Port, loop: asyncio.AbstractEventLoop) -> None:
        self.port = port
        self.deadline = _FOREVER
        """Moment of the loop's clock at which the client is too slow."""
        self._loop = loop
        self._parser: Any = httptools.HttpRequestParser(self)
        self._pipeline: deque[Exchange] = deque()
        self._flushing = False
        self._finished = False
        """Nothing more is read from this client."""
        self._current: Exchange | None = None
        self._in_head = False
        self._head_bytes = 0
        """Of the head that is being read: what the parser gave of it."""
        self._raw_head_bytes = 0
        """Of the same head: what came of it in chunks that hold nothing else."""
        self._begun = 0
        """Requests whose first byte came in the chunk in hand."""

    # --- asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client came."""
        self._transport = cast(asyncio.Transport, transport)
        self.port.connections.add(self)
        self.deadline = self._loop.time() + self.port.settings.header_timeout_seconds

    def data_received(self, data: bytes) -> None:
        """Feed the parser; what follows a last request is read and forgotten."""
        if self._finished:
            return
        before, self._begun = self._current, 0
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._finish()
        except httptools.HttpParserError as error:
            self._refuse(InvalidRequestError(f"not valid HTTP/1.1: {error}"))
        alone = self._current is before or (before is None and self._begun == 1)
        if self._in_head and alone:  # before it in a chunk may be any number of whole requests
            self._raw_head_bytes += len(data)
            self._check_head()

    def eof_received(self) -> bool:
        """A client that ends its half is taken as gone: those that hang up far outnumber those that wait half open."""
        self._finished = True
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone; what it still waits for is cancelled."""
        del exc
        self._finished = True
        self.port.connections.discard(self)
        if self._current is not None:
            self._current.reading.release()
        self._abandon()

    def pause_writing(self) -> None:
        """The client does not read: read nothing more from it either."""
        self._transport.pause_reading()
        self.deadline = self._loop.time() + UNREAD_SECONDS

    def resume_writing(self) -> None:
        """The client reads again."""
        self._transport.resume_reading()
        if self._current is None:
            self.deadline = self._next_deadline()

    # --- httptools

    def on_message_begin(self) -> None:
        """The first byte of a request."""
        if self._finished:
            return
        self._current = Exchange(self)
        self._in_head = True
        self._begun += 1
        self._head_bytes = self._raw_head_bytes = 0
        self.deadline = self._loop.time() + self.port.settings.header_timeout_seconds

    def on_url(self, url: bytes) -> None:
        """A part of the target."""
        if self._current is not None:
            self._current.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header, whole."""
        if self._current is not None:
            self._head_bytes += len(name) + len(value) + 4
            self._current.headers[name.lower()] = value

    def on_headers_complete(self) -> None:
        """Decide whether the body is wanted before it is read."""
        self._in_head = False
        exchange = self._current
        if exchange is None:
            return
        exchange.method = self._parser.get_method()
        self._head_bytes += len(exchange.url)
        self._check_head()
        if self._current is None:
            return
        try:
            exchange.reading.begin(exchange.headers)
        except RequestError as error:
            self._refuse(error)
            return
        self.deadline = self._loop.time() + self.port.settings.body_timeout_seconds
        if exchange.headers.get(b"expect", b"").lower() == b"100-continue" and not self._pipeline:
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, data: bytes) -> None:
        """A part of the body."""
        if self._current is not None:
            try:
                self._current.reading.feed(data)
            except RequestError as error:
                self._refuse(error)

    def on_message_complete(self) -> None:
        """The request is whole: hand it on."""
        exchange = self._current
        if exchange is None:
            return
        try:
            exchange.body = exchange.reading.finish()
        except RequestError as error:
            self._refuse(error)
            return
        self._current = None
        self.deadline = _FOREVER
        exchange.close = not self._parser.should_keep_alive()
        self._pipeline.append(exchange)
        if exchange.close:
            self._finished = True
        if len(self._pipeline) >= MAX_PIPELINED:
            self._transport.pause_reading()
        self.port.application(exchange)

    # --- answers

    def answered(self, exchange: Exchange) -> None:
        """An exchange has its reply: write it once all before it are written."""
        exchange.reading.release()
        if not self._pipeline or self._transport.is_closing():
            return
        if len(self._pipeline) > 1 and not self._flushing:
            self._flushing = True
            self._loop.call_soon(self._flush)  # the answers of one turn of the loop leave in one write
        elif not self._flushing:
            self._flush()

    def overdue(self) -> None:
        """The sweep found the deadline over."""
        if self._current is not None and not self._finished:
            self._refuse(SlowClientError("the request did not come in time"))
        elif self._finished or self._pipeline:
            self._transport.abort()
        else:
            self._transport.close()

    def shut(self) -> None:
        """Close after what is written."""
        self._finished = True
        self._transport.close()

    @property
    def busy(self) -> bool:
        """Whether an answer is due, or a request is being read."""
        return bool(self._pipeline) or (self._current is not None and not self._finished)

    def _flush(self) -> None:
        self._flushing = False
        out = []
        pipeline = self._pipeline
        last = False
        full = len(pipeline) >= MAX_PIPELINED
        while pipeline and not last and (reply := pipeline[0].reply) is not None:
            last = pipeline.popleft().close
            out.append(reply)
        if not out or self._transport.is_closing():
            return
        self._transport.write(out[0] if len(out) == 1 else b"".join(out))
        if last:
            self._hang_up()
        elif self._current is None:
            self.deadline = self._next_deadline()
        if full and len(pipeline) < MAX_PIPELINED:
            self._transport.resume_reading()

    def _hang_up(self) -> None:
        """Say that nothing follows, and wait for the client to see it."""
        self._finish()
        self._abandon()
        if self._transport.can_write_eof():
            self._transport.write_eof()
        self.deadline = self._loop.time() + LINGER_SECONDS

    def _abandon(self) -> None:
        """Nobody will read these answers any more."""
        pipeline, self._pipeline = self._pipeline, deque()
        for exchange in pipeline:
            exchange.reading.release()
            if exchange.reply is None and exchange.on_hangup is not None:
                exchange.on_hangup()

    def _finish(self) -> None:
        self._finished = True
        self._current = None
        self._in_head = False

    def _refuse(self, error: RequestError) -> None:
        """Answer a request that cannot be read to its end; the connection closes, as its place in the bytes is lost."""
        if self._finished and self._current is None:
            return
        exchange = self._current or Exchange(self)
        self._finish()
        exchange.close = True
        self._pipeline.append(exchange)
        exchange.refuse(error)

    def _check_head(self) -> None:
        limit = self.port.settings.max_header_bytes
        if max(self._head_bytes, self._raw_head_bytes) > limit and self._current is not None:
            self._refuse(HeaderTooLargeError(f"request line and headers are larger than {limit} bytes"))

    def _next_deadline(self) -> float:
        return _FOREVER if self._pipeline else self._loop.time() + self.port.settings.idle_timeout_seconds
