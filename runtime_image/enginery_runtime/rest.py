"""The REST front end: endpoints of the Open Inference Protocol on `http1`, translated to and from `service`.

There is one model, so all valid targets are known: a request costs one look-up. Only a target that is not found is
taken apart, to say what about it is unknown.
"""

import logging
from collections.abc import Callable, Mapping
from functools import partial
from urllib.parse import quote, unquote

import orjson
from enginery_store.manifest import TensorSpec

from enginery_runtime.errors import (
    CancelledRequestError,
    ExecutionError,
    InvalidRequestError,
    NotFoundError,
    RequestError,
)
from enginery_runtime.http1 import Exchange
from enginery_runtime.infer import InferRequest, InferResult
from enginery_runtime.rest_codec import Decoded, decode, encode
from enginery_runtime.service import InferenceService

log = logging.getLogger(__name__)

Handler = Callable[[Exchange], None]

PROTOCOL = "REST"
"""This front end's name in metrics."""


class MethodError(RequestError):
    """The endpoint takes another method."""

    status = 405
    code = "UNIMPLEMENTED"


class LengthRequiredError(RequestError):
    """A body is needed, and the request has none."""

    status = 411
    code = "INVALID_ARGUMENT"


class RestApi:
    """The application of the REST port."""

    def __init__(self, service: InferenceService) -> None:
        self._service = service
        get, post = b"GET", b"POST"
        self._routes: dict[bytes, tuple[bytes, Handler]] = {
            b"/v2": (get, partial(self._document, service.server_document)),
            b"/v2/": (get, partial(self._document, service.server_document)),
            b"/v2/health/live": (get, self._live),
            b"/v2/health/ready": (get, self._ready),
            b"/v2/models/stats": (get, partial(self._document, service.statistics_document)),
            b"/v2/repository/index": (post, self._index),
        }
        for name in {service.name, quote(service.name, safe="")}:
            plain = f"/v2/models/{name}".encode()
            for model in (plain, plain + f"/versions/{quote(service.version, safe='')}".encode()):
                self._routes[model] = (get, partial(self._document, service.model_document))
                self._routes[model + b"/ready"] = (get, self._ready)
                self._routes[model + b"/config"] = (get, partial(self._document, service.config_document))
                self._routes[model + b"/stats"] = (get, partial(self._document, service.statistics_document))
                self._routes[model + b"/infer"] = (post, self._infer)

    def __call__(self, exchange: Exchange) -> None:
        """Answer a request, or begin to; never raises."""
        try:
            method, handler = self._routes.get(exchange.url) or self._search(exchange.url)
            if exchange.method != method and not (exchange.method == b"HEAD" and method == b"GET"):
                refusal = MethodError(f"{unquote(exchange.url.decode('latin-1'))} takes {method.decode()} only")
                exchange.refuse(refusal, b"Allow: %b\r\n" % method)
                return
            handler(exchange)
        except RequestError as error:
            exchange.refuse(error)
        except Exception:
            log.exception("a request met a fault of the server")
            exchange.refuse(ExecutionError("this request met a fault of the server"))

    def _search(self, url: bytes) -> tuple[bytes, Handler]:
        """The route of a target written in another way (query, escapes, a last slash), or why there is none."""
        path = unquote(url.partition(b"?")[0].decode("latin-1"))
        route = self._routes.get(path.rstrip("/").encode())
        if route is not None:
            return route
        parts = path.strip("/").split("/")
        if len(parts) > 2 and parts[:2] == ["v2", "models"]:  # noqa: PLR2004 - v2/models/NAME
            version = parts[4] if len(parts) > 4 and parts[3] == "versions" else ""  # noqa: PLR2004 - .../versions/V
            if parts[-1] == "infer":
                known = parts[2] == self._service.name
                self._service.statistics.answers[known, PROTOCOL, NotFoundError.code] += 1
            self._service.require(parts[2], version)
        raise NotFoundError(f"no endpoint {path}")

    def _document(self, make: Callable[[], object], exchange: Exchange) -> None:
        exchange.answer(200, orjson.dumps(make()))

    def _live(self, exchange: Exchange) -> None:
        live = self._service.lifecycle.live
        exchange.answer(200 if live else 503, orjson.dumps({"live": live}))

    def _ready(self, exchange: Exchange) -> None:
        ready = self._service.lifecycle.ready
        exchange.answer(200 if ready else 503, orjson.dumps({"ready": ready}))

    def _index(self, exchange: Exchange) -> None:
        try:
            asked = orjson.loads(exchange.body) if exchange.body else {}
        except orjson.JSONDecodeError as error:
            raise InvalidRequestError(f"body: not valid JSON: {error}") from None
        if type(asked) is not dict:
            raise InvalidRequestError("body: must be a JSON object")
        exchange.answer(200, orjson.dumps(self._service.index_document(ready_only=asked.get("ready") is True)))

    def _infer(self, exchange: Exchange) -> None:
        headers, service = exchange.headers, self._service
        try:
            scheduler = service.scheduler
            if not exchange.body and b"content-length" not in headers and b"transfer-encoding" not in headers:
                raise LengthRequiredError("a body with Content-Length, or a chunked one, is required")
            asked = decode(exchange.body, headers.get(b"inference-header-content-length"), scheduler.shape)
            done = partial(self._done, exchange, asked, scheduler.shape.outputs)
            request = InferRequest(PROTOCOL, asked.inputs, asked.outputs, done, asked.id, asked.parameters)
            scheduler.submit(request)
        except RequestError as error:
            self._refuse(exchange, error)
        else:
            exchange.on_hangup = partial(service.cancel, request)

    def _done(
        self,
        exchange: Exchange,
        asked: Decoded,
        specs: Mapping[str, TensorSpec],
        outcome: InferResult | RequestError,
    ) -> None:
        """The scheduler's answer, on the event loop."""
        if isinstance(outcome, RequestError):
            self._refuse(exchange, outcome)
            return
        service = self._service
        head: dict[str, object] = {"model_name": service.name, "model_version": service.version}
        if asked.id:
            head["id"] = asked.id
        try:
            body, json_length = encode(head, outcome, specs, asked)
        except RequestError as error:
            self._refuse(exchange, error)
            return
        except Exception:
            log.exception("an answer could not be written")
            self._refuse(exchange, ExecutionError("the answer cannot be written"))
            return
        service.statistics.answers[True, PROTOCOL, "OK"] += 1
        if json_length is None:
            exchange.answer(200, body)
        else:
            extra = b"Inference-Header-Content-Length: %d\r\n" % json_length
            exchange.answer(200, body, b"application/octet-stream", extra)

    def _refuse(self, exchange: Exchange, error: RequestError) -> None:
        self._service.statistics.answers[True, PROTOCOL, error.code] += 1
        if isinstance(error, CancelledRequestError):
            return
        exchange.refuse(error)
