"""Composition root: log, request, network off, conversion, termination message, exit code. The container's entry point.

python3 -m enginery_converter [--request FILE]

ENGINERY_REQUEST            the request document, as the builder gets it
ENGINERY_WORK_FOLDER        folder with `source` and `converted` (default /var/lib/enginery)
ENGINERY_TERMINATION_LOG    file the kubelet reads the termination message from (default /dev/termination-log)
ENGINERY_LOG_LEVEL          INFO unless set
"""

import argparse
import logging
import os
import resource
import sys
from collections.abc import Sequence
from pathlib import Path

from enginery_store import log
from enginery_store.errors import DocumentError, FinalError
from enginery_store.manifest import parse_document
from enginery_store.reasons import Reason
from enginery_store.requests import EXIT_CODES, REQUEST_VARIABLE, PrepareRequest, TerminationMessage

from enginery_converter import network
from enginery_converter.supervise import UNFORESEEN, supervise

LOG = logging.getLogger("enginery_converter")

_TALKATIVE = ("onnx_ir", "onnxscript", "tf2onnx", "transformers")
"""Loggers that write a line for every node of a graph."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Convert one source; returns the exit code that stands for what became of it."""
    given = _parse(arguments)
    log.configure(os.environ.get("ENGINERY_LOG_LEVEL") or "INFO")
    work = Path(os.environ.get("ENGINERY_WORK_FOLDER") or "/var/lib/enginery")
    if given.inside:
        return _convert(given.request, work)
    try:
        network.close()
        request = _request(given.request)
    except FinalError as error:
        return _leave(TerminationMessage(reason=error.reason, message=error.message, retryable=False))
    command = [sys.executable, "-m", "enginery_converter", "--inside"]
    command += ["--request", str(given.request)] if given.request else []
    message, code = supervise(command, request.timeout_seconds)
    return _leave(message, code) if message else code


def _convert(path: Path | None, work: Path) -> int:
    """The child's part: a refusal is a result of it like a model, and what nobody foresaw is in the log."""
    from enginery_converter.convert import convert

    for name in _TALKATIVE:
        logging.getLogger(name).setLevel(logging.WARNING)
    try:
        request = _request(path)
        # A model that is written without end ends here, and not with the disk of the node.
        resource.setrlimit(resource.RLIMIT_FSIZE, (request.max_source_bytes, request.max_source_bytes))
        done = convert(request, work)
    except FinalError as error:
        return _leave(TerminationMessage(reason=error.reason, message=error.message, retryable=False))
    except Exception as error:
        LOG.exception("failed")
        text = f"conversion ended with an unexpected {type(error).__name__}; the pod's log has the details"
        return _leave(TerminationMessage(reason=Reason.CONVERSION_FAILED, message=text, retryable=True), UNFORESEEN)
    text = done.refusal.message if done.refusal else "converted to ONNX"
    return _leave(TerminationMessage(reason=Reason.PREPARING, message=text, retryable=False), 0)


def _request(path: Path | None) -> PrepareRequest:
    data = path.read_bytes() if path else os.environ.get(REQUEST_VARIABLE, "")
    try:
        return parse_document(PrepareRequest, data)
    except DocumentError as error:
        text = f"{path or REQUEST_VARIABLE} holds no order for a conversion: {error.message}"
        raise FinalError(text, reason=Reason.CONFIG_ERROR) from None


def _leave(message: TerminationMessage, code: int | None = None) -> int:
    """Write the termination message where the kubelet reads it; returns the exit code, by the reason unless given."""
    ends_with = EXIT_CODES[message.reason] if code is None else code
    LOG.info("finished", extra={"reason": message.reason, "exit_code": ends_with, "text": message.message})
    try:
        Path(os.environ.get("ENGINERY_TERMINATION_LOG") or "/dev/termination-log").write_bytes(message.to_log())
    except OSError as error:
        LOG.warning("no termination log", extra={"error": str(error)})
    return ends_with


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="enginery_converter", description="Convert one source to ONNX.")
    parser.add_argument("--request", type=Path, help=f"request document; the variable {REQUEST_VARIABLE} otherwise")
    parser.add_argument("--inside", action="store_true", help="convert in this very process, its network as it is")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
