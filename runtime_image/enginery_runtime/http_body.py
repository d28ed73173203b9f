"""The body of one HTTP request, read piece by piece within its limits. Called by `http1`, which knows the socket.

What is promised is set aside from the budget before it is read; what turns out larger than promised (chunks, or
compressed data) is set aside as it grows.
"""

import zlib
from collections.abc import Mapping
from typing import Any

from enginery_runtime.errors import InvalidRequestError, TooLargeError
from enginery_runtime.limits import Budget

_ZLIB_OR_GZIP = 32 + zlib.MAX_WBITS
"""Lets zlib tell gzip from deflate by itself."""


class Body:
    """Bytes received so far. Every method raises RequestError when the body is not to be read on."""

    __slots__ = ("_budget", "_data", "_inflate", "_limit", "_reserved")

    def __init__(self, limit_bytes: int, budget: Budget) -> None:
        """`limit_bytes` holds for the body as sent and decompressed."""
        self._limit = limit_bytes
        self._budget = budget
        self._data: bytes | bytearray = b""
        self._reserved = 0
        self._inflate: Any = None

    def begin(self, headers: Mapping[bytes, bytes]) -> None:
        """Look at what the headers promise; names are in lower case."""
        length = headers.get(b"content-length", b"0")
        if not length.isdigit():
            raise InvalidRequestError("Content-Length: not a number")
        self._reserve(int(length))
        encoding = headers.get(b"content-encoding")
        if encoding is None or encoding.lower() == b"identity":
            return
        if encoding.lower() not in (b"gzip", b"deflate"):
            raise InvalidRequestError("Content-Encoding: gzip, deflate and identity are understood")
        self._inflate = zlib.decompressobj(_ZLIB_OR_GZIP)

    def feed(self, data: bytes) -> None:
        """Add a piece."""
        if self._inflate is not None:
            try:
                data = self._inflate.decompress(data, self._limit - len(self._data) + 1)
            except zlib.error as error:
                raise InvalidRequestError(f"body: not valid compressed data: {error}") from None
        size = len(self._data) + len(data)
        if size > self._reserved:
            self._reserve(size)
        if not self._data:
            self._data = data
        elif isinstance(self._data, bytearray):
            self._data += data
        else:
            self._data = bytearray(self._data) + data

    def finish(self) -> bytes | bytearray:
        """The whole body; the budget stays in use until `release`."""
        if self._inflate is not None and not self._inflate.eof:
            raise InvalidRequestError("body: the compressed data ends early")
        data, self._data = self._data, b""
        return data

    def release(self) -> None:
        """The request is answered, or nobody waits for it any more."""
        self._budget.give(self._reserved)
        self._reserved = 0
        self._data = b""

    def _reserve(self, size_bytes: int) -> None:
        if size_bytes > self._limit:
            raise TooLargeError(f"the request is larger than {self._limit} bytes, the limit of this server")
        self._budget.take(size_bytes - self._reserved)
        self._reserved = size_bytes
