"""A TCP forwarder that tests open and close: an endpoint that does not answer, and then does.

    road = Forwarder(host, upstream_host, upstream_port)    # the port is chosen, nothing listens
    road.open()
    road.close()

It passes bytes on as they are, so a request signed for its address holds at the server behind it.
"""

import contextlib
import socket
import threading


class Forwarder:
    """One port of this machine before one server."""

    def __init__(self, host: str, upstream: tuple[str, int]) -> None:
        self._host, self._upstream = host, upstream
        with socket.create_server((host, 0)) as probe:
            self.port: int = probe.getsockname()[1]
        self._listener: socket.socket | None = None
        self._open: list[socket.socket] = []

    @property
    def endpoint(self) -> str:
        return f"http://{self._host}:{self.port}"

    def open(self) -> None:
        """Answer from now on."""
        self._listener = socket.create_server((self._host, self.port))
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def turn_to(self, upstream: tuple[str, int]) -> None:
        """Send new connections there, and leave the old ones: what a Service does whose endpoints change."""
        self._upstream = upstream

    def close(self) -> None:
        """Refuse from now on, and cut what is open."""
        if self._listener is not None:
            with contextlib.suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
            self._listener = None
        for connection in self._open:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()
        self._open.clear()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
                server = socket.create_connection(self._upstream, timeout=10)
            except OSError:
                return
            server.settimeout(None)
            self._open += [client, server]
            for one, other in ((client, server), (server, client)):
                threading.Thread(target=_pump, args=(one, other), daemon=True).start()


def _pump(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)
