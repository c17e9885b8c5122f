"""Why no connection came about, in words that fit the case: what happened, and the next step."""

from toolbus.config import Resolved, ServerConfig
from toolbus.connect.diagnostics import Diagnostics
from toolbus.connect.lacking import next_step
from toolbus.connect.transports.http import phrase
from toolbus.connect.transports.jsonrpc import WireError
from toolbus.core.errors import AuthRequired, ConnectFailed, in_seconds

_PATH = "check the path of the URL (many servers are at /mcp or /sse)"
_STATUS_HINTS = {
    404: _PATH,
    405: f"that path does not take MCP requests: {_PATH}",
    410: _PATH,
    501: f"that path does not take MCP requests: {_PATH}",
    429: "wait, then try again",
}
# What to ask, by a word in the reason why there is no connection.
_QUESTIONS = {
    "SSL": "is it https, with a certificate to trust",
    "Name or service not known": "is the host name right",
    "nodename nor servname": "is the host name right",
    "getaddrinfo": "is the host name right",
}
# The next step, by a word in what is wrong with an answer over HTTP.
_ANSWER_HINTS = {
    "another origin": "if you trust it, put that URL into the config",
    "redirects": "is it a login page? Give the server credentials, or put its own URL into the config",
    "web page": "check the URL: it leads to a website or a login page",
    "the server's answer": "is it the URL of an MCP server?",
    "event stream": "is it the URL of an MCP server?",
}


def no_answer(config: ServerConfig, diagnostics: Diagnostics) -> ConnectFailed:
    """The server did not answer in time."""
    slow = (
        "it writes text to its standard output, where only messages belong: is it an MCP server?"
        if diagnostics.garbage
        else "if a first start downloads something, raise timeouts.connect"
        if config.url is None
        else "is it the URL of an MCP server? If it is only slow, raise timeouts.connect"
    )
    cause = f"no answer in {in_seconds(config.timeouts.connect)}"
    return ConnectFailed(config.alias, diagnostics.phase, cause, hint=slow, stderr=diagnostics.tail())


def described(
    error: BaseException, config: ServerConfig, diagnostics: Diagnostics, values: Resolved
) -> ConnectFailed:
    """The failed attempt as our error."""
    lines = values.redacted(str(error)).splitlines()
    cause = lines[0] if lines else type(error).__name__
    if isinstance(error, WireError) and error.status is not None:
        return _refused(error.status, cause, config, diagnostics)
    if isinstance(error, WireError) and not error.sent and diagnostics.exit_code is None:
        question = next((q for word, q in _QUESTIONS.items() if word in cause), "is the server running")
        return ConnectFailed(config.alias, "connect", cause, hint=f"{question}, at {values.public_url}?")
    if diagnostics.lost is not None and diagnostics.exit_code is not None:
        stderr = diagnostics.tail()
        hint = next_step(config, values, stderr, diagnostics.withheld)
        return ConnectFailed(
            config.alias,
            diagnostics.phase,
            f"the process ended with {diagnostics.ended}",
            hint=hint or ("" if stderr else "run the command by hand to see why"),
            exit_code=diagnostics.exit_code,
            stderr=stderr,
        )
    return ConnectFailed(
        config.alias, diagnostics.phase, cause, hint=answer_hint(cause), stderr=diagnostics.tail()
    )


def answer_hint(cause: str) -> str:
    """The next step after an answer over HTTP that is no use."""
    return next((hint for word, hint in _ANSWER_HINTS.items() if word in cause), "")


def _refused(status: int, cause: str, config: ServerConfig, diagnostics: Diagnostics) -> ConnectFailed:
    if status in (401, 403):
        return AuthRequired(config.alias, diagnostics.phase, status)
    if status >= 500 and status not in _STATUS_HINTS:
        hint = "look at the server's own log, or try again later"
    else:
        hint = _STATUS_HINTS.get(status) or answer_hint(cause) or "is it the URL of an MCP server?"
    # What the server says beside the status is its own reason.
    cause = cause if cause.startswith("HTTP ") else f"{phrase(status)}: {cause}"
    return ConnectFailed(config.alias, diagnostics.phase, cause, hint=hint, status=status)
