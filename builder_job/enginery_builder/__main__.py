"""Composition root: log, request, guard, story, termination message, exit code. Started by a Job's container.

python3 -m enginery_builder fetch|prepare|build [--request FILE]
"""

import argparse
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from enginery_store import log
from enginery_store.errors import DocumentError, FinalError
from enginery_store.manifest import parse_document
from enginery_store.reasons import Reason
from enginery_store.requests import REQUEST_VARIABLE, BuildRequest, PrepareRequest

from enginery_builder import verdict
from enginery_builder.guard import Guard
from enginery_builder.settings import Settings
from enginery_builder.verdict import Verdict

LOG = logging.getLogger("enginery_builder")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one order; returns the exit code that stands for its outcome."""
    given = _parse(arguments)
    settings = Settings.from_environment(os.environ)
    log.configure(settings.log_level)
    try:
        request = read_request(given.command, given.request)
    except FinalError as error:
        return leave(verdict.failure(error, given.command), settings)
    guard = Guard(
        request.timeout_seconds,
        lambda: leave(verdict.timed_out(given.command, request.timeout_seconds), settings),
    )
    guard.start()
    result = run(given.command, request, settings)
    if not guard.disarm():
        return leave(verdict.timed_out(given.command, request.timeout_seconds), settings)
    return leave(result, settings)


def read_request(command: str, path: Path | None) -> PrepareRequest | BuildRequest:
    """The order, from a file or the environment. Raises FinalError (ConfigError) when it is not one."""
    data = path.read_bytes() if path else os.environ.get(REQUEST_VARIABLE, "")
    try:
        return parse_document(BuildRequest, data) if command == "build" else parse_document(PrepareRequest, data)
    except DocumentError as error:
        text = f"{path or REQUEST_VARIABLE} holds no order for {command}: {error.message}"
        raise FinalError(text, reason=Reason.CONFIG_ERROR) from None


def run(command: str, request: PrepareRequest | BuildRequest, settings: Settings) -> Verdict:
    """The story of this command; whatever ends it becomes a verdict. Heavy libraries are imported here."""
    LOG.info("started", extra={"command": command, "key": request.key, "model": request.model.model_dump()})
    try:
        if isinstance(request, BuildRequest):
            from enginery_builder.build import build

            return build(request, settings)
        if command == "fetch":
            from enginery_builder.deliver import deliver

            return deliver(request, settings)
        from enginery_builder.prepare import prepare

        return prepare(request, settings)
    except BaseException as error:
        LOG.exception("failed", extra={"command": command, "key": request.key})
        return verdict.failure(error, command)


def leave(result: Verdict, settings: Settings) -> int:
    """Write the termination message where the kubelet reads it; returns the exit code."""
    message = result.message
    LOG.info("finished", extra={"reason": message.reason, "exit_code": result.exit_code, "text": message.message})
    try:
        settings.termination_log.write_bytes(message.to_log())
    except OSError as error:
        LOG.warning("no termination log", extra={"error": str(error)})
    return result.exit_code


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="enginery_builder", description="Fetch, prepare or build one model.")
    parser.add_argument("command", choices=["fetch", "prepare", "build"])
    parser.add_argument("--request", type=Path, help=f"request document; the variable {REQUEST_VARIABLE} otherwise")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
