"""How the log of ``pointsman serve`` is written to standard error: as text, or as one JSON object a line."""

from __future__ import annotations

import json
import logging
import time
from enum import StrEnum
from typing import Any, Final

from pointsman.errors import ConfigError
from pointsman.printable import printable

__all__ = ["REQUESTS", "JsonLines", "LogFormat", "OneLine", "log_to_stderr", "with_public_name"]

#: The logger of one line per request.
REQUESTS: Final = "pointsman.requests"

#: The time of a line of text, with its distance from UTC.
_TIME: Final = "%Y-%m-%dT%H:%M:%S%z"
#: Characters of a message and of a traceback in a line of JSON: collectors cut longer lines in two.
_LONGEST: Final = 8_000


class LogFormat(StrEnum):
    """How a line of the log is written."""

    TEXT = "text"
    JSON = "json"


class OneLine(logging.Formatter):
    """Writes a message as one line: quoted text can neither forge another line nor steer a terminal."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name in logging
        """Write the line without a traceback."""
        record.message = printable(record.message)
        return super().formatMessage(record)

    def formatException(self, ei: Any) -> str:  # noqa: N802 - the name in logging
        """Write a traceback, which may quote as well."""
        return printable(super().formatException(ei), keep="\n\t")


class JsonLines(logging.Formatter):
    """Writes a record as one line of JSON in ASCII: time, level, logger, message; of a request its fields.

    A record has a request's fields as ``request`` (``request_lines.log_requests``); its time is that of the
    request's end.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Write the line."""
        line: dict[str, Any] = {
            "time": _utc(getattr(record, "at", record.created)),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage()[:_LONGEST],
            **getattr(record, "request", {}),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)[-_LONGEST:]
        return json.dumps(line)


def _utc(at: float) -> str:
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(at))}.{int(at * 1e3) % 1000:03d}Z"


def log_to_stderr(
    level: str, written: LogFormat = LogFormat.TEXT, *, handler: logging.Handler | None = None
) -> None:
    """Write the log to standard error.

    Args:
        level: Of decisions.
        written: How.
        handler: Takes it instead of standard error.

    Raises:
        ConfigError: there is no such level.
    """
    from pointsman.gateway.log_sampling import LogSampler

    known = logging.getLevelNamesMapping()
    if level.upper() not in known:
        raise ConfigError(f'unknown log level "{level}"', hint="debug, info, warning, error")
    before = list(logging.getLogger().handlers)
    logging.basicConfig(handlers=[handler] if handler else None)
    is_json = written is LogFormat.JSON
    for handler in logging.getLogger().handlers:
        handler.addFilter(with_public_name)
        if handler not in before:  # one of an application's own is its own business
            handler.addFilter(LogSampler(handler))
            text = OneLine("%(asctime)s %(levelname)s %(name)s: %(message)s", _TIME)
            handler.setFormatter(JsonLines() if is_json else text)
    logging.captureWarnings(is_json)  # what Python warns of is a line like any other
    logging.getLogger("pointsman").setLevel(known[level.upper()])
    for name in ("pointsman.gateway", REQUESTS):
        logging.getLogger(name).setLevel(logging.INFO)


def with_public_name(record: logging.LogRecord) -> bool:
    """Name the package that logs: which of its modules does is no concern of an operator."""
    record.name = record.name.partition("._")[0]
    return True
