"""One JSON log format for the operator, the builder and the runtime. Called by each program's `__main__`, first of all.

Messages are static; what varies goes into fields (`extra={"engine": key}`), so that a log store can group and filter.
"""

import json
import logging
import sys
from datetime import UTC, datetime
from typing import TextIO

_OWN_ATTRIBUTES = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "color_message"}


class JSONFormatter(logging.Formatter):
    """One line of JSON per record: time (RFC 3339, UTC), level, logger, message, then the record's extra fields."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line."""
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line.update({name: value for name, value in vars(record).items() if name not in _OWN_ATTRIBUTES})
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str, ensure_ascii=False)


def configure(level: str = "INFO", stream: TextIO = sys.stderr) -> None:
    """Send every logger of this process to `stream` as JSON; replaces handlers that libraries installed before."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JSONFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    logging.getLogger("botocore").setLevel(logging.WARNING)
    logging.captureWarnings(capture=True)
