"""The gRPC port: grpcio's asyncio server with the limits of this process, the protocol's methods and the health check.

`serve` starts and stops it. grpc.health.v1 is written here in a few lines, as the package for it would be one more pin.
"""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc

from enginery_runtime.grpc_front import SERVICE_NAME, GrpcApi
from enginery_runtime.oip import health_pb2
from enginery_runtime.service import InferenceService
from enginery_runtime.settings import Settings

_Status = health_pb2.HealthCheckResponse

NO_LIMIT = -1
"""What grpcio takes for unlimited."""

AGE_JITTER = 0.1
"""grpcio ends connections up to this share earlier or later than told."""

POLL_SECONDS = 0.05
"""How often open connections are counted while the server waits to be left."""

_ESTABLISHED = "01"
"""A connection's state in Linux' /proc/net/tcp."""


class HealthCheck:
    """grpc.health.v1: SERVING exactly while ready. The empty service name stands for the process."""

    def __init__(self, service: InferenceService) -> None:
        self._lifecycle = service.lifecycle

    def handlers(self) -> grpc.GenericRpcHandler:
        """Check and Watch."""
        request = health_pb2.HealthCheckRequest.FromString
        methods = {
            "Check": grpc.unary_unary_rpc_method_handler(self._check, request, _Status.SerializeToString),
            "Watch": grpc.unary_stream_rpc_method_handler(self._watch, request, _Status.SerializeToString),
        }
        return grpc.method_handlers_generic_handler("grpc.health.v1.Health", methods)

    async def _check(self, asked: health_pb2.HealthCheckRequest, context: Any) -> health_pb2.HealthCheckResponse:
        if asked.service not in ("", SERVICE_NAME):
            await context.abort(grpc.StatusCode.NOT_FOUND, f"service {asked.service!r} is unknown")
        return self._status()

    async def _watch(self, asked: health_pb2.HealthCheckRequest, _: Any) -> AsyncIterator[Any]:
        if asked.service not in ("", SERVICE_NAME):
            yield _Status(status=_Status.SERVICE_UNKNOWN)
            await asyncio.Event().wait()
        while True:
            yield self._status()
            await self._lifecycle.changed()

    def _status(self) -> health_pb2.HealthCheckResponse:
        return _Status(status=_Status.SERVING if self._lifecycle.ready else _Status.NOT_SERVING)


async def start_grpc(service: InferenceService, settings: Settings) -> grpc.aio.Server:
    """Open the port; raises OSError when it is taken."""
    server = grpc.aio.server(
        options=[
            ("grpc.max_receive_message_length", settings.max_request_bytes),
            ("grpc.max_send_message_length", NO_LIMIT),
            ("grpc.max_metadata_size", settings.max_header_bytes),
            ("grpc.max_connection_age_ms", int(1000 * settings.grpc_connection_age_seconds)),
            ("grpc.so_reuseport", 0),
        ],
        # What is read before it is decoded is bounded too; beyond the queue there are always some being written.
        maximum_concurrent_rpcs=2 * settings.max_queued_requests,
    )
    server.add_generic_rpc_handlers((GrpcApi(service).handlers(), HealthCheck(service).handlers()))
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    try:
        server.add_insecure_port(f"{host}:{settings.grpc_port}")
    except RuntimeError as error:
        raise OSError(str(error)) from None
    await server.start()
    return server


async def until_left(settings: Settings, seconds: float) -> None:
    """Wait until no client is connected any more, at most so long and no longer than a connection can live.

    grpcio answers CANCELLED to calls that reach it while it shuts down (grpc/grpc#41785), and clients take that for
    their own doing and do not ask again. A connection that is ended by its age has no such moment.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + min(seconds, (1 + AGE_JITTER) * settings.grpc_connection_age_seconds + POLL_SECONDS)
    while loop.time() < end and _connected(settings.grpc_port):  # noqa: ASYNC110 - the kernel sends no event
        await asyncio.sleep(POLL_SECONDS)


def _connected(port: int) -> bool:
    """Whether the kernel knows an established connection of this local port; grpcio does not tell."""
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        path = Path(table)
        for line in path.read_text().splitlines()[1:] if path.exists() else ():
            _, local, _, state, *_ = line.split()
            if state == _ESTABLISHED and int(local.rpartition(":")[2], 16) == port:
                return True
    return False
