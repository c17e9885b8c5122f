"""Report an error: one line that ends with the next step, and the exit code."""

import sys
from contextlib import suppress
from traceback import format_exception

import typer

from toolbus.cli.options import suggested
from toolbus.cli.output.screen import escaped_json, visible, wrapped
from toolbus.core.values.errors import (
    CallDenied,
    CallTimeout,
    ConfigError,
    InputNeeded,
    ServerNotFound,
    SignInFailed,
    ToolbusError,
    ToolNotFound,
)

FAILED, WRONG_USAGE = 1, 2


class Usage(Exception):
    """The command line is invalid; `details` are lines to print below the message."""

    def __init__(self, message: str, details: tuple[str, ...] = ()) -> None:
        self.details = details
        super().__init__(message)


class NoSignIn(ToolbusError):
    """Nobody can sign in to a server as it is configured; `details` are lines to print below the message."""

    def __init__(self, message: str, details: tuple[str, ...] = ()) -> None:
        self.details = details
        super().__init__(message)


class SignInCancelled(ToolbusError):
    """The user ended a sign-in with Ctrl-C or Ctrl-D."""

    def __init__(self, server: str, user: str = "") -> None:
        self.server = server
        super().__init__(f"the sign-in to {server}{f' as {user}' if user else ''} was cancelled")


def report(error: BaseException, *, as_json: bool, debug: bool = False) -> int:
    """Print the error to stderr, with `as_json` also as JSON to stdout; return the exit code.

    With `debug`, a traceback comes first. A stream that cannot be written to is ignored.
    """
    message, code = _message_and_code(error)
    message = suggested(message)
    headline, details = message, error.details if isinstance(error, Usage | NoSignIn) else ()
    if isinstance(error, ConfigError) and len(error.mistakes) > 1:
        headline, details = (
            f"{len(error.mistakes)} errors in the config:",
            tuple(suggested(str(mistake)) for mistake in error.mistakes),
        )
    from toolbus.cli.output.json_log import LOG, json_line

    with suppress(OSError):
        if LOG.is_json:
            more = {"error": "".join(format_exception(error))} if debug else None
            print(
                json_line("error", "toolbus", " ".join((headline, *details)), more),
                file=sys.stderr,
                flush=True,
            )
        else:
            _print_lines(error if debug else None, headline, details)
    if as_json:
        kind = (
            "Usage" if code == WRONG_USAGE and not isinstance(error, ToolbusError) else type(error).__name__
        )
        with suppress(OSError):
            print(escaped_json({"error": {"type": kind, "message": message}}), flush=True)
    return code


def _print_lines(error: BaseException | None, headline: str, details: tuple[str, ...]) -> None:
    if error is not None:
        print(visible("".join(format_exception(error))), end="", file=sys.stderr)
    print(wrapped(f"toolbus: {visible(headline)}", sys.stderr), file=sys.stderr)
    print(*map(visible, details), sep="\n", end="\n" if details else "", file=sys.stderr, flush=True)


def _message_and_code(error: BaseException) -> tuple[str, int]:
    match error:
        case ConfigError() | Usage() | ServerNotFound():
            return str(error), WRONG_USAGE
        case CallTimeout():
            option = "--timeout or " if error.what.startswith("tool ") else ""
            return f"{error}; raise the limit with {option}timeouts.call in the config", FAILED
        case InputNeeded():
            later = ", or answer later with --on-input suspend (modern servers only)"
            asked = f"server {error.server!r}: {error.what} {error.asked}; run it on a terminal to answer"
            return asked + (later if error.what.startswith("tool ") else ""), FAILED
        case CallDenied():
            return _refusal(error), FAILED
        case ToolNotFound(close_matches=[], likely=None):
            reasons = " and see why a server is down" if error.down else ""
            return f"{error}; run 'toolbus tools' to list them{reasons}", FAILED
        case SignInFailed(hint=""):
            step = "run it again" if error.step == "sign-in" else f"run 'toolbus check {error.server}'"
            return f"{error}; {step}", FAILED
        case ToolbusError():
            return str(error), FAILED
        case typer.TyperException():
            return _usage_message(error), WRONG_USAGE
        case OSError():
            return f"{error.strerror or error}" + (f": {error.filename!r}" if error.filename else ""), FAILED
        case _:
            name = type(error).__name__
            return f"a bug in toolbus: {name}: {error}; please report it with the output of --debug", FAILED


def _refusal(error: CallDenied) -> str:
    """The message for a person: the reason may be one for a model, which must not try again."""
    from toolbus.policy.approvals import DENIED, NOT_AGAIN
    from toolbus.policy.guard import NOBODY

    if error.rule is not None and error.reason.endswith(NOBODY):
        later = ", or answer later with --on-input suspend" if error.what.startswith("tool ") else ""
        reason = f"rule {error.rule} asks a person, and nobody can be asked here"
        return f"{error.what} was refused: {reason}; run it on a terminal to answer{later}"
    if not error.reason.endswith(NOT_AGAIN):
        return str(error)
    reason = error.reason.removesuffix(f"; {NOT_AGAIN}")
    if reason == DENIED:
        reason = "you declined it"
    elif reason == f"{DENIED}, and answered 'never'":
        name = error.what.removeprefix("tool ").strip("'")
        reason = f"you answered 'never'; to be asked again, run 'toolbus policy {name} --forget'"
    return f"{error.what} was not run: {reason.removeprefix('not allowed: ')}"


def _usage_message(error: typer.TyperException) -> str:
    """The parser's message, with a pointer to the command's help."""
    from pydantic import ValidationError

    if isinstance(error, typer.BadParameter) and isinstance(error.__cause__, ValidationError):
        found = error.__cause__.errors()[0]
        if found["type"] in ("int_parsing", "float_parsing"):
            error.message = f"{found['input']!r} is not a number"
    command = getattr(getattr(error, "ctx", None), "command_path", "toolbus")
    message = error.format_message().rstrip(".")
    gap = " See" if message.endswith("?") else "; see"
    return f"{message[:1].lower()}{message[1:]}{gap} '{command} --help'"
