"""The log of a service in JSON: one object per line on stderr, for programs that collect logs."""

import json
import logging
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Literal, TypeAlias

from toolbus.cli.terminal import TERMINAL, variables
from toolbus.core.text.text import visible
from toolbus.core.values.errors import ConfigError

LogFormat: TypeAlias = Literal["text", "json"]
VARIABLE = "TOOLBUS_LOG_FORMAT"
"""The variable with the format, where no option names one."""
_FORMATS = ("text", "json")
_LEVELS = {"red": "error", "yellow": "warning"}
"""The levels of lines that have a style."""


class LogState:
    """The format of the log of this process. Commands that have a log do not run in the background bus."""

    is_json = False


LOG = LogState()


def use_log_format(given: LogFormat | None) -> None:
    """Use this format, or the one in the environment, for all that is logged from now on."""
    name = given or variables().get(VARIABLE) or "text"
    if name not in _FORMATS:
        raise ConfigError(f"expected text or json, not {name!r}", key=VARIABLE)
    LOG.is_json = name == "json"


class JsonFormatter(logging.Formatter):
    """Writes a record as an object, without secrets."""

    def format(self, record: logging.LogRecord) -> str:
        more = {"error": self.formatException(record.exc_info)} if record.exc_info else {}
        at = datetime.fromtimestamp(record.created, UTC)
        return json_line(record.levelname.lower(), record.name, record.getMessage(), more, at)


def json_line(
    level: str,
    logger: str,
    message: str,
    more: Mapping[str, str | int] | None = None,
    at: datetime | None = None,
) -> str:
    """One line of the log."""
    trace = _trace_id()
    line = {
        "time": (at or datetime.now(UTC)).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "level": level,
        "logger": logger,
        "message": message,
        **({} if trace is None else {"trace_id": trace}),
        **(more or {}),
    }
    hidden = {key: _readable(value) if isinstance(value, str) else value for key, value in line.items()}
    return json.dumps(hidden)  # in ASCII: nothing in it that a terminal or a collector would obey


def log_json(message: str, *, style: str = "", who: str = "", **more: str | int) -> None:
    """Write a line that no logger has: of `who`, with the level of a style."""
    line = json_line(_LEVELS.get(style, "info"), "toolbus", message, {"about": who, **more} if who else more)
    print(line, file=TERMINAL.get().stream("stderr"), flush=True)


def _readable(text: str) -> str:
    from toolbus.config.secrets.redact import redacted_by_all  # most commands log nothing

    return visible(str(redacted_by_all(text)))


def _trace_id() -> str | None:
    """The trace that this task belongs to; None without one."""
    if "opentelemetry.trace" not in sys.modules:  # then nothing is traced
        return None
    from opentelemetry.trace import format_trace_id, get_current_span

    context = get_current_span().get_span_context()
    return format_trace_id(context.trace_id) if context.is_valid else None
