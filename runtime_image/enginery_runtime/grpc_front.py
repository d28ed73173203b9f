"""The gRPC front end: the methods of inference.GRPCInferenceService, translated to and from `service`.

`grpc_server` puts them on a port. Everything but ModelInfer is rare, so those methods send the documents of `service`
through protobuf's JSON mapping: REST and gRPC cannot differ.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, NoReturn

import grpc
from google.protobuf.json_format import ParseDict
from google.protobuf.message import DecodeError, Message

from enginery_runtime.errors import ExecutionError, InvalidRequestError, RequestError
from enginery_runtime.grpc_codec import decode_inputs, decode_outputs, decode_parameters, encode
from enginery_runtime.infer import InferRequest, InferResult
from enginery_runtime.oip import grpc_service_pb2 as pb
from enginery_runtime.service import InferenceService

PROTOCOL = "GRPC"
"""This front end's name in metrics."""

SERVICE_NAME = "inference.GRPCInferenceService"
"""As clients address it."""

log = logging.getLogger(__name__)

Method = Callable[[Any, Any], Awaitable[Any]]


class GrpcApi:
    """The methods; each answers or aborts with the code of a RequestError."""

    def __init__(self, service: InferenceService) -> None:
        self._service = service
        self._loop = asyncio.get_running_loop()

    def handlers(self) -> grpc.GenericRpcHandler:
        """All methods, as grpcio wants them."""
        service = self._service
        unary: dict[str, tuple[Method, type[Message]]] = {
            "ServerLive": (self._health(pb.ServerLiveResponse, "live"), pb.ServerLiveRequest),
            "ServerReady": (self._health(pb.ServerReadyResponse, "ready"), pb.ServerReadyRequest),
            "ModelReady": (self._model_ready, pb.ModelReadyRequest),
            "ServerMetadata": (
                self._document(pb.ServerMetadataResponse, lambda _: service.server_document()),
                pb.ServerMetadataRequest,
            ),
            "ModelMetadata": (
                self._document(pb.ModelMetadataResponse, self._of_model(service.model_document)),
                pb.ModelMetadataRequest,
            ),
            "ModelConfig": (
                self._document(pb.ModelConfigResponse, self._of_model(lambda: {"config": service.config_document()})),
                pb.ModelConfigRequest,
            ),
            "ModelStatistics": (
                self._document(pb.ModelStatisticsResponse, self._of_any(service.statistics_document)),
                pb.ModelStatisticsRequest,
            ),
            "RepositoryIndex": (
                self._document(
                    pb.RepositoryIndexResponse,
                    lambda asked: {"models": service.index_document(ready_only=asked.ready)},
                ),
                pb.RepositoryIndexRequest,
            ),
        }
        methods = {
            name: grpc.unary_unary_rpc_method_handler(
                method, request_deserializer=kind.FromString, response_serializer=_serialize
            )
            for name, (method, kind) in unary.items()
        }
        methods["ModelInfer"] = grpc.unary_unary_rpc_method_handler(self._infer)  # bytes: see _infer
        methods["ModelStreamInfer"] = grpc.stream_stream_rpc_method_handler(_no_streams)
        return grpc.method_handlers_generic_handler(SERVICE_NAME, methods)

    async def _infer(self, data: bytes, context: Any) -> bytes:
        """Takes and gives bytes: so a message that is none can be refused in words, and its size is known for free."""
        service, size, code, known = self._service, 0, "OK", True
        try:
            service.budget.take(len(data))
            size = len(data)
            message = _parse(data)
            known = message.model_name == service.name
            service.require(message.model_name, message.model_version)
            specs = service.scheduler.shape.outputs
            result = await self._result(message)
            return encode(message, result, specs, service.name, service.version).SerializeToString()
        except RequestError as error:
            code = error.code
            await _abort(context, error)
        except asyncio.CancelledError:
            code = "CANCELLED"
            raise
        except Exception:
            code = ExecutionError.code
            log.exception("a request met a fault of the server")
            await _abort(context, ExecutionError("this request met a fault of the server"))
        finally:
            service.budget.give(size)
            service.statistics.answers[known, PROTOCOL, code] += 1

    async def _result(self, message: pb.ModelInferRequest) -> InferResult:
        """Wait for the scheduler; a client that cancels takes its request out of the queue."""
        scheduler = self._service.scheduler
        future: asyncio.Future[InferResult] = self._loop.create_future()
        request = InferRequest(
            PROTOCOL,
            decode_inputs(message, scheduler.shape),
            decode_outputs(message),
            partial(_settle, future),
            message.id,
            decode_parameters(message),
        )
        scheduler.submit(request)
        try:
            return await future
        except asyncio.CancelledError:
            scheduler.cancel(request)
            raise

    def _health(self, answer: type[Message], field: str) -> Method:
        async def method(_: Message, __: Any) -> Message:
            return answer(**{field: getattr(self._service.lifecycle, field)})

        return method

    async def _model_ready(self, message: pb.ModelReadyRequest, context: Any) -> pb.ModelReadyResponse:
        try:
            self._service.require(message.name, message.version)
        except RequestError as error:
            await _abort(context, error)
        return pb.ModelReadyResponse(ready=self._service.lifecycle.ready)

    def _of_model(self, make: Callable[[], dict[str, object]]) -> Callable[[Any], dict[str, object]]:
        def document(asked: Any) -> dict[str, object]:
            self._service.require(asked.name, asked.version)
            return make()

        return document

    def _of_any(self, make: Callable[[], dict[str, object]]) -> Callable[[Any], dict[str, object]]:
        """As `_of_model`; no name asks for all models."""

        def document(asked: Any) -> dict[str, object]:
            if asked.name:
                self._service.require(asked.name, asked.version)
            return make()

        return document

    def _document(self, answer: type[Message], make: Callable[[Any], dict[str, Any]]) -> Method:
        async def method(message: Message, context: Any) -> Message:
            try:
                return ParseDict(make(message), answer())
            except RequestError as error:
                await _abort(context, error)

        return method


def _parse(data: bytes) -> pb.ModelInferRequest:
    try:
        return pb.ModelInferRequest.FromString(data)
    except DecodeError:
        raise InvalidRequestError("the message is not a ModelInferRequest") from None


def _settle(future: asyncio.Future[InferResult], outcome: InferResult | RequestError) -> None:
    if future.done():
        return
    if isinstance(outcome, RequestError):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)


def _serialize(message: Message) -> bytes:
    return message.SerializeToString()


async def _abort(context: Any, error: RequestError) -> NoReturn:
    await context.abort(getattr(grpc.StatusCode, error.code), error.message)
    raise AssertionError("abort raises")


async def _no_streams(_: Any, context: Any) -> None:
    await context.abort(grpc.StatusCode.UNIMPLEMENTED, "streams are not supported; call ModelInfer")
