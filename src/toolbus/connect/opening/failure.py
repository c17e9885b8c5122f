"""The error of a failed attempt to connect: the cause, and the next step."""

from toolbus.connect.opening.attempt import Attempt
from toolbus.connect.opening.diagnostics import exit_hint
from toolbus.connect.transports.http import AUTH_STATUSES, status_cause
from toolbus.connect.transports.wire.pending import WireError
from toolbus.core.text.display import in_seconds
from toolbus.core.values.errors import (
    AuthRequired,
    ConfigError,
    ConnectFailed,
    SecretMissing,
    SignInFailed,
    ToolbusError,
)

CLIENTS_ONLY = (
    "used only for clients of the gateway that sign in with OAuth, so its tools are listed for them alone"
)
_PATH = "check the path of the URL (many servers are at /mcp or /sse)"
_STATUS_HINTS = {
    404: _PATH,
    405: f"that path does not take MCP requests: {_PATH}",
    410: _PATH,
    501: f"that path does not take MCP requests: {_PATH}",
    429: "wait and retry",
}
_IS_MCP = "check that it is the URL of an MCP server"
_IS_MCP_PROGRAM = "check that the command starts an MCP server"
# The next step after a connection that failed, by a string in the cause.
_CONNECT_HINTS = {
    "SSL": "check that the server uses https and a trusted certificate",
    "Name or service not known": "check the host name",
    "nodename nor servname": "check the host name",
    "getaddrinfo": "check the host name",
}
# The next step, by a string in the problem with an HTTP response.
_RESPONSE_HINTS = {
    "another origin": "if you trust it, put that URL into the config",
    "redirects": "if it is a login page, add credentials; else put the server's own URL into the config",
    "web page": "check the URL: it is a website or a login page",
    "the server's response": _IS_MCP,
    "event stream": _IS_MCP,
}


def needs_user(error: ToolbusError | None) -> bool:
    """Whether a person has to fix it: an invalid entry, no such command, no secret or credentials."""
    is_ours = isinstance(error, ConnectFailed) and error.phase in ("configure", "spawn")
    return is_ours or isinstance(error, AuthRequired | ConfigError | SecretMissing)


def awaits_client(error: ToolbusError | None) -> bool:
    """Whether a server needs the token of a client, which the bus itself does not have."""
    return isinstance(error, SignInFailed) and error.step == "client token"


def timeout_failure(attempt: Attempt) -> ConnectFailed:
    config, diagnostics = attempt.config, attempt.diagnostics
    hint = (
        "it writes text to its standard output, where only messages belong: check that it is an MCP server"
        if diagnostics.skipped
        else "if it starts slowly, as with a first download, raise timeouts.connect"
        if config.command is not None
        else f"{_IS_MCP}; if it is only slow, raise timeouts.connect"
    )
    cause = f"timed out after {in_seconds(config.timeouts.connect)}"
    if config.command is not None:
        cause = f"{cause}: it did not answer, so toolbus ended it"
    return ConnectFailed(config.alias, diagnostics.phase, cause, hint=hint, stderr=diagnostics.stderr_tail())


def connect_failure(error: BaseException, attempt: Attempt) -> ConnectFailed:
    """The error of an attempt that failed with this exception."""
    config, values, diagnostics = attempt.config, attempt.values, attempt.diagnostics
    if isinstance(error, WireError) and isinstance(error.reported, ConnectFailed):
        return error.reported
    lines = values.redacted(str(error)).splitlines()
    cause = lines[0] if lines else type(error).__name__
    if isinstance(error, WireError) and error.status is not None:
        return _status_failure(error.status, cause, attempt)
    if isinstance(error, WireError) and not error.sent and config.command is None:
        hint = next(
            (h for text, h in _CONNECT_HINTS.items() if text in cause), "check that the server is running"
        )
        return ConnectFailed(config.alias, "connect", cause, hint=f"{hint}: {values.public_url}")
    if diagnostics.flood is not None:
        return ConnectFailed(config.alias, diagnostics.phase, diagnostics.flood, hint=_IS_MCP_PROGRAM)
    if diagnostics.lost is not None and diagnostics.exit_code is not None:
        stderr = diagnostics.stderr_tail()
        hint = exit_hint(config, values, stderr, diagnostics.withheld)
        if config.sandbox is not None:
            # Here, because few programs need it.
            from toolbus.connect.sandbox.hints import sandbox_hint, setup_failure

            if failure := setup_failure(config, stderr, diagnostics.exit_code):
                return failure
            hint = sandbox_hint(config, values, stderr) or hint
        return ConnectFailed(
            config.alias,
            diagnostics.phase,
            f"the process ended with {diagnostics.exit_status}",
            hint=hint or ("" if stderr else "run the command by hand to see why"),
            exit_code=diagnostics.exit_code,
            stderr=stderr,
        )
    return ConnectFailed(
        config.alias, diagnostics.phase, cause, hint=response_hint(cause), stderr=diagnostics.stderr_tail()
    )


def response_hint(cause: str) -> str:
    """The next step after an HTTP response with this problem; empty if unknown."""
    return next((hint for text, hint in _RESPONSE_HINTS.items() if text in cause), "")


def _status_failure(status: int, cause: str, attempt: Attempt) -> ConnectFailed:
    server, phase = attempt.config.alias, attempt.diagnostics.phase
    cause = status_cause(status, cause)
    if status in AUTH_STATUSES:
        return AuthRequired(server, phase, status, cause=cause)
    if status >= 500 and status not in _STATUS_HINTS:
        hint = "check the server's log, or retry later"
    else:
        hint = _STATUS_HINTS.get(status) or response_hint(cause) or _IS_MCP
    return ConnectFailed(server, phase, cause, hint=hint, status=status)
