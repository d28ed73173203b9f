"""The process's life on the event loop: ports open at once, the engine starts beside, signals drain; for `__main__`."""

import asyncio
import logging
import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from enginery_store.requests import ServeRequest

from enginery_runtime.grpc_server import start_grpc, until_left
from enginery_runtime.http_server import HttpServer
from enginery_runtime.lifecycle import Phase
from enginery_runtime.limits import Budget
from enginery_runtime.metrics import MetricsApi
from enginery_runtime.rest import RestApi
from enginery_runtime.scheduler import Scheduler
from enginery_runtime.service import InferenceService
from enginery_runtime.settings import Settings
from enginery_runtime.startup import WarmEngine, start

log = logging.getLogger(__name__)

T = TypeVar("T")

FAREWELL_SECONDS = 1.0
"""After the last accepted request, connections still open are told "closing" for this long before they are closed."""

TICK_SECONDS = 0.02
"""How often the end of open connections is looked for while stopping."""


class Server:
    """The ports and the service behind them."""

    def __init__(self, request: ServeRequest, settings: Settings) -> None:
        self._request = request
        self._settings = settings
        budget = Budget(settings.max_inflight_bytes)
        self.service = InferenceService(request.model, request.batching, budget)
        self._rest = HttpServer(RestApi(self.service), settings, budget, lambda: self.service.lifecycle.leaving)
        self._metrics = HttpServer(MetricsApi(self.service), settings, budget, lambda: False)
        self._grpc: Any = None
        self._scheduler: Scheduler | None = None
        self._stopping = asyncio.Event()

    async def run(self) -> None:
        """Serve until SIGTERM. Raises EngineryError when the engine cannot be started."""
        self._handle_signals()
        await self._open_ports()
        starting = asyncio.ensure_future(_in_thread(self._start_engine))
        stopping = asyncio.ensure_future(self._stopping.wait())
        await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if starting.done() and not self._stopping.is_set():
            self._serve(starting.result())
            await stopping
        await self._drain()

    async def _open_ports(self) -> None:
        settings = self._settings
        await self._metrics.listen(settings.host, settings.metrics_port)
        # Health is asked over both, so both are open whatever protocols the model is served with.
        await self._rest.listen(settings.host, settings.rest_port)
        self._grpc = await start_grpc(self.service, settings)
        log.info("ports open", extra={"rest": settings.rest_port, "grpc": settings.grpc_port})

    def _start_engine(self) -> WarmEngine:
        return start(self._request, self._settings, self._timed)

    def _timed(self, phase: str, seconds: float) -> None:
        """Called on the starting thread, which is alone in writing these."""
        spent = self.service.statistics.cold_start_seconds
        spent[phase] = spent.get(phase, 0.0) + seconds

    def _serve(self, engine: WarmEngine) -> None:
        self._scheduler = Scheduler(
            engine.backend,
            engine.known_good,
            engine.shape,
            self._request.batching,
            self.service.statistics,
            max_queued_requests=self._settings.max_queued_requests,
            broke=lambda: self.service.lifecycle.enter(Phase.BROKEN),
        )
        self.service.serve(engine.manifest, self._scheduler)
        log.info("ready", extra={"engine": engine.manifest.key, "model": self.service.name})

    def _handle_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._signalled)

    def _signalled(self) -> None:
        """The first signal drains, the second ends the process at once."""
        if self._stopping.is_set():
            log.warning("second signal, ending at once")
            os._exit(1)
        self._stopping.set()
        self.service.lifecycle.enter(Phase.DRAINING)

    async def _drain(self) -> None:
        """Serve on until clients have left, finish what was accepted, and cut what outlives the grace period."""
        loop = asyncio.get_running_loop()
        end = loop.time() + self._settings.grace_seconds
        log.info("draining")
        if self._scheduler is not None:
            await asyncio.sleep(min(self._settings.drain_delay_seconds, self._settings.grace_seconds))
            await until_left(self._settings, end - loop.time())
        self.service.lifecycle.enter(Phase.STOPPED)
        self._rest.stop_listening()
        self._metrics.stop_listening()
        grpc_stopped = asyncio.ensure_future(self._grpc.stop(end - loop.time() + FAREWELL_SECONDS))
        if self._scheduler is not None:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._scheduler.idle(), max(0.0, end - loop.time()))
            self._scheduler.stop()
        await self._say_farewell(end + FAREWELL_SECONDS)
        await grpc_stopped
        self._rest.close_all()
        self._metrics.close_all()
        log.info("stopped")

    async def _say_farewell(self, end: float) -> None:
        """Until no REST client is in work, then a moment more, so that clients hear "closing" instead of a reset."""
        loop = asyncio.get_running_loop()
        quiet_since: float | None = None
        while self._rest.connections and loop.time() < end:
            quiet_since = None if self._rest.busy else quiet_since or loop.time()
            if quiet_since is not None and loop.time() - quiet_since >= FAREWELL_SECONDS:
                return
            await asyncio.sleep(TICK_SECONDS)


async def _in_thread(action: Callable[[], T]) -> T:
    """Run blocking work on a daemon thread: the process can end while it still blocks, unlike with an executor."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def settle(result: T | None, error: BaseException | None) -> None:
        if future.cancelled():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)  # type: ignore[arg-type]  # no error: a result

    def work() -> None:
        try:
            result = action()
        except BaseException as error:  # noqa: BLE001 - it is raised again where it is awaited
            loop.call_soon_threadsafe(settle, None, error)
        else:
            loop.call_soon_threadsafe(settle, result, None)

    threading.Thread(target=work, name="start", daemon=True).start()
    return await future
