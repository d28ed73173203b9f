"""Entry of the served image: logging, settings, the order of the operator, then serve.

Whatever ends the process before its time is one line in the log, a termination message for the operator, and the exit
code of its reason.
"""

import logging
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from enginery_store.errors import DocumentError, EngineryError
from enginery_store.log import configure
from enginery_store.manifest import parse_document
from enginery_store.reasons import Reason
from enginery_store.requests import EXIT_CODES, REQUEST_VARIABLE, ServeRequest, TerminationMessage

from enginery_runtime.errors import ConfigurationError
from enginery_runtime.settings import Settings, load_settings

log = logging.getLogger("enginery_runtime")

TERMINATION_LOG_VARIABLE = "ENGINERY_TERMINATION_LOG"
"""Overrides where the termination message goes, for processes that are no pods."""

TERMINATION_LOG = "/dev/termination-log"
"""Where the kubelet reads it."""

UNEXPECTED_EXIT_CODE = 1
"""A fault of this program, no reason of the contract."""


def main() -> int:
    """Serve, and return the exit code."""
    configure()
    try:
        settings = load_settings(os.environ)
        configure(settings.log_level)
        request = read_request(os.environ)
        _run(request, settings)
    except EngineryError as error:
        log.error("the runtime ends", extra={"reason": error.reason, "error": error.message})  # noqa: TRY400 - expected
        _leave_message(TerminationMessage(reason=error.reason, message=error.message, retryable=error.retryable))
        return EXIT_CODES.get(error.reason, UNEXPECTED_EXIT_CODE)
    except Exception as error:
        log.exception("the runtime ends unexpectedly")
        words = f"{type(error).__name__}: {error}"
        _leave_message(TerminationMessage(reason=Reason.ENGINE_LOAD_FAILED, message=words, retryable=True))
        return UNEXPECTED_EXIT_CODE
    return 0


def read_request(environment: Mapping[str, str]) -> ServeRequest:
    """The order of the operator; raises ConfigurationError."""
    text = environment.get(REQUEST_VARIABLE)
    if not text:
        raise ConfigurationError(f"{REQUEST_VARIABLE} is empty; it holds the request document")
    try:
        return parse_document(ServeRequest, text)
    except DocumentError as error:
        raise ConfigurationError(f"{REQUEST_VARIABLE}: {error.message}") from None


def _run(request: ServeRequest, settings: Settings) -> None:
    """Imports what serves only now, so that a library that fails to import is logged like everything else."""
    import uvloop

    from enginery_runtime.serve import Server

    async def serve() -> None:
        await Server(request, settings).run()

    uvloop.run(serve())


def _leave_message(message: TerminationMessage) -> None:
    path = Path(os.environ.get(TERMINATION_LOG_VARIABLE) or TERMINATION_LOG)
    try:
        path.write_bytes(message.to_log())
    except OSError as error:
        log.warning("the termination message was not written", extra={"path": str(path), "error": str(error)})


if __name__ == "__main__":
    code = main()
    logging.shutdown()
    sys.stdout.flush()
    os._exit(code)  # threads of a start that was cut short, or of a backend that hangs, must not hold the process
