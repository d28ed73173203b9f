"""A port that speaks HTTP/1.1: opens it, finds the clients that are too slow, closes it. Called by `serve`."""

import asyncio
from collections.abc import Callable

from enginery_runtime.http1 import Exchange, Http1, Port
from enginery_runtime.limits import Budget
from enginery_runtime.settings import Settings

SWEEP_SECONDS = 1.0
"""How often connections are looked at: one timer for all of them, so timeouts hold to a second."""


class HttpServer:
    """One port and its connections."""

    def __init__(
        self,
        application: Callable[[Exchange], None],
        settings: Settings,
        budget: Budget,
        leaving: Callable[[], bool],
    ) -> None:
        """`leaving` says whether clients should look for another address."""
        self._port = Port(application, settings, budget, leaving)
        self._server: asyncio.Server | None = None
        self._sweeper: asyncio.TimerHandle | None = None

    @property
    def connections(self) -> set[Http1]:
        """Those open now."""
        return self._port.connections

    @property
    def busy(self) -> bool:
        """Whether a request is being read or an answer is due."""
        return any(connection.busy for connection in self.connections)

    async def listen(self, host: str, port: int) -> None:
        """Open the port; raises OSError when it is taken."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: Http1(self._port, loop), host, port, backlog=1024)
        self._sweep()

    def stop_listening(self) -> None:
        """Refuse new connections; those that are open go on."""
        if self._server is not None:
            self._server.close()

    def close_all(self) -> None:
        """Close every connection once its written answers are sent."""
        if self._sweeper is not None:
            self._sweeper.cancel()
        for connection in list(self.connections):
            connection.shut()

    def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        for connection in list(self.connections):
            if connection.deadline < now:
                connection.overdue()
        self._sweeper = loop.call_later(SWEEP_SECONDS, self._sweep)
