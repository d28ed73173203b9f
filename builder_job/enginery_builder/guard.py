"""The thread that ends this process on time: on SIGTERM, and when the request's time is up. Started by `__main__`.

The work may sit in native code for an hour, where Python runs no signal handler. So SIGTERM is blocked in every thread
and one thread waits for it, with the request's time as its time-out; `os._exit` then needs nobody's consent.
"""

import faulthandler
import logging
import os
import signal
import threading
from collections.abc import Callable

LOG = logging.getLogger(__name__)

TERMINATED = 128 + signal.SIGTERM
"""Exit code of a process that SIGTERM ended (143): a disruption, which no retry is counted for."""

_BACKSTOP_SECONDS = 15
"""If a library holds Python's lock beyond the time-out, the interpreter's own C thread ends the process (exit 1)."""


class Guard:
    """Watches one run; `disarm` once the run has its result."""

    def __init__(self, timeout_seconds: float, on_timeout: Callable[[], int]) -> None:
        """`on_timeout` leaves the termination message and gives the exit code. Call before other threads start."""
        self._timeout_seconds = timeout_seconds
        self._on_timeout = on_timeout
        self._finished = threading.Lock()

    def start(self) -> None:
        """Block SIGTERM in this thread and all that it starts later, and begin to watch."""
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        threading.Thread(target=self._watch, name="guard", daemon=True).start()
        faulthandler.dump_traceback_later(self._timeout_seconds + _BACKSTOP_SECONDS, exit=True)

    def disarm(self) -> bool:
        """The run has its result. False when the time-out was first and is ending the process."""
        faulthandler.cancel_dump_traceback_later()
        return self._finished.acquire(blocking=False)

    def _watch(self) -> None:
        if signal.sigtimedwait({signal.SIGTERM}, self._timeout_seconds):
            LOG.warning("terminated", extra={"signal": "SIGTERM"})
            os._exit(TERMINATED)
        if self._finished.acquire(blocking=False):
            os._exit(self._on_timeout())
