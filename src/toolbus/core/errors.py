"""Every error toolbus raises: what happened, to whom, and the next step.

    ToolbusError
    ├── ConfigError            the config is wrong (a ValueError too)
    │   └── ConfigNotTrusted   a config that was only found, and the user did not agree to it yet
    ├── BusClosed              the bus is not running
    ├── ToolNotFound           no tool of that name in the catalog (a LookupError too)
    ├── ToolFailed             a tool reported an error, and you asked for an exception
    ├── ArgumentsError         arguments that cannot be sent (a TypeError too)
    ├── ShaperFailed           your shaper is broken; the catalog stays as it was
    ├── ExtraMissing           a part of toolbus needs packages that are not installed (an ImportError too)
    └── ServerError            something about one server, named by `server`
        ├── ServerNotFound     no server of that alias on the bus (a LookupError too)
        ├── SecretMissing      a `${NAME}` of its config has no value
        ├── ConnectFailed      no working connection came about; says the phase
        │   └── AuthRequired   the server answered 401 or 403
        ├── ServerDown         a call found the link not ready
        ├── CallTimeout        no answer in time (a TimeoutError too)
        ├── CallRejected       the server answered with a protocol error, not a result
        ├── InputNeeded        the server asks something that nobody here answers
        ├── ResourceTooLarge   a resource is larger than the config allows
        └── LinkLost           the connection ended; what was under way may have taken effect

A tool that reports failure is no error here: that is a `ToolResult` with `is_error`, until you call its
`raise_for_error()`.
Messages are one line, built from the facts, which stay readable as attributes.
"""

import shlex
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Literal

from toolbus.core.display import shortened
from toolbus.core.stderr import telling_line
from toolbus.core.text import cleaned

Phase = Literal["configure", "spawn", "connect", "handshake", "list", "call"]
"""How far a connection came: values resolved, process started, address reached, era agreed, and so on."""


def in_seconds(seconds: float) -> str:
    """A time to be read: `5 s`, not `4.99999 s`."""
    return f"{round(seconds, 2) or seconds:g} s"


class ToolbusError(Exception):
    """The base of every error toolbus raises."""


class ConfigError(ToolbusError, ValueError):
    """The config is wrong; `file`, `server` and `key` say where."""

    def __init__(
        self,
        problem: str,
        *,
        file: str | None = None,
        server: str | None = None,
        key: str | None = None,
        mistakes: "Sequence[ConfigError]" = (),
    ) -> None:
        self.problem = problem
        self.file = file
        self.server = server
        self.key = key
        self._mistakes = tuple(mistakes)
        where = [file, f"server {server!r}" if server is not None else None, key]
        super().__init__(": ".join([part for part in where if part] + [problem]))

    @property
    def mistakes(self) -> "tuple[ConfigError, ...]":
        """Each mistake by itself if the error lists several; else this error alone."""
        return self._mistakes or (self,)


class ConfigNotTrusted(ConfigError):
    """A config was found, but not named, and the user has not agreed to it as it is now."""

    def __init__(self, file: str, reason: str = "is not trusted yet", *, option: str | None = None) -> None:
        self.reason = reason
        words = ["toolbus", "trust", *([option] if option else ()), file]
        super().__init__(f"{reason}; review and accept it: {shlex.join(words)}", file=file)
        self.args = (f"{file} {self.problem}",)


class BusClosed(ToolbusError):
    """The bus is not running: never started, or stopped."""

    def __init__(
        self,
        what: str = "the bus",
        *,
        started: bool = True,
        how: str = "use `async with`, or await start() first",
    ) -> None:
        self.started = started
        super().__init__(
            f"{what} is closed; create a new one" if started else f"{what} is not started; {how}"
        )


class ToolNotFound(ToolbusError, LookupError):
    """No tool of that name is in the catalog."""

    def __init__(
        self,
        name: str,
        known: Sequence[str],
        *,
        alike: Sequence[str] = (),
        down: Sequence[str] = (),
        likely: str | None = None,
        remark: str = "",
    ) -> None:
        self.name = name
        self.down = tuple(down)
        self.likely = likely
        """Why the server that would have a tool of that name is not connected, if that is so."""
        # Then a tool of another server that is spelt alike is no help: a model would take it.
        self.close_matches = [] if likely else list(alike[:3]) or get_close_matches(name, known, n=3)
        reason = f": {likely}" if likely else ""
        hint = f"; did you mean {' or '.join(map(repr, self.close_matches))}?" if self.close_matches else ""
        missing = f"; not connected: {', '.join(self.down)}" if self.down and not likely else ""
        super().__init__(f"no tool named {name!r} among {len(known)}{reason}{missing}{hint}{remark}")


class ToolFailed(ToolbusError):
    """A tool reported an error; raised by `ToolResult.raise_for_error` alone. `text` is all that it said."""

    def __init__(self, tool: str | None, text: str) -> None:
        self.tool = tool
        self.text = text
        who = "the tool" if tool is None else f"tool {tool!r}"
        super().__init__(f"{who} failed: {shortened(text, 300) or 'without a message'}")


class CallRefused(ToolbusError):
    """A guard refused an operation: nothing was sent."""

    def __init__(self, what: str, reason: str) -> None:
        self.what = what
        self.reason = reason
        super().__init__(f"{what} was refused: {reason}")


class ArgumentsError(ToolbusError, TypeError):
    """The arguments of a call cannot be sent."""

    def __init__(self, what: str, problem: str) -> None:
        self.what = what
        self.problem = problem
        super().__init__(f"arguments of {what}: {problem}")


class ShaperFailed(ToolbusError):
    """A shaper is broken. The catalog stays as it was: a shaper may be there to keep tools out."""

    def __init__(self, shaper: str, error: Exception) -> None:
        self.shaper = shaper
        super().__init__(f"shaper {shaper!r} raised {type(error).__name__}: {error}")


class ExtraMissing(ToolbusError, ImportError):
    """A part of toolbus needs packages that are not installed; `extra` names the set that has them."""

    def __init__(self, part: str, extra: str, reason: str) -> None:
        self.part = part
        self.extra = extra
        super().__init__(f'{part} cannot be used: {reason}; pip install "toolbus[{extra}]"')


class ServerError(ToolbusError):
    """Something about one server."""

    def __init__(self, server: str, problem: str) -> None:
        self.server = server
        # It may quote the server, and may be shown in a terminal or to a model.
        self.problem = cleaned(problem)
        super().__init__(f"server {server!r}: {self.problem}")


class ServerNotFound(ServerError, LookupError):
    """No server of that alias is on the bus."""

    def __init__(self, server: str, known: Sequence[str]) -> None:
        self.close_matches = get_close_matches(server, known, n=3)
        hint = (
            f"did you mean {self.close_matches[0]!r}?"
            if self.close_matches
            else f"known servers: {list(known)}"
        )
        super().__init__(server, f"unknown server; {hint}")


_SECRET_STEPS = {
    "": "set it in the environment or in a .env beside the config",
    "file": "check the path, and whether you may read the file",
    "cmd": "run the command by hand: it has to print the value",
}


class SecretMissing(ServerError):
    """A reference such as `${NAME}` in the server's config has no value."""

    def __init__(self, server: str, field: str, reference: str, reason: str = "is not set") -> None:
        self.field = field
        self.reference = reference
        kind = reference.partition(":")[0] if ":" in reference else ""
        # The reasons of the keyring name their own step.
        step = "" if kind == "keyring" else f"; {_SECRET_STEPS.get(kind, _SECRET_STEPS[''])}"
        super().__init__(server, f"{field}: secret {reference!r} {reason}{step}")


class ConnectFailed(ServerError):
    """No working connection came about; `phase` says how far it got."""

    def __init__(
        self,
        server: str,
        phase: Phase,
        cause: str,
        *,
        hint: str = "",
        exit_code: int | None = None,
        status: int | None = None,
        stderr: Sequence[str] = (),
    ) -> None:
        self.phase = phase
        self.cause = cause
        self.hint = hint
        self.exit_code = exit_code
        self.status = status
        self.stderr = tuple(stderr)
        said = telling_line(self.stderr) or " | ".join(self.stderr[-3:])
        tail = f"; on stderr: {said}" if said else ""
        advice = f"; {hint}" if hint else ""
        super().__init__(server, f"{phase} failed: {cause}{tail}{advice}")


class AuthRequired(ConnectFailed):
    """The server wants other credentials (HTTP 401 or 403)."""

    def __init__(self, server: str, phase: Phase, status: int) -> None:
        super().__init__(
            server,
            phase,
            f"HTTP {status} {'Unauthorized' if status == 401 else 'Forbidden'}",
            hint="give it valid credentials: headers, or auth: {type: bearer, token: ...}",
            status=status,
        )


class ServerDown(ServerError):
    """A call found the server's link not ready; `state` and `reason` say why."""

    def __init__(self, server: str, state: str, reason: str | None) -> None:
        self.state = state
        self.reason = reason
        super().__init__(server, f"not connected ({state})" + (f": {reason}" if reason else ""))


class CallTimeout(ServerError, TimeoutError):
    """The server did not answer in time; it was told to stop."""

    def __init__(self, server: str, what: str, seconds: float, stderr: Sequence[str] = ()) -> None:
        self.what = what
        self.seconds = seconds
        self.stderr = tuple(stderr)
        tail = f"; last on stderr: {self.stderr[-1]}" if self.stderr else ""
        super().__init__(server, f"{what} gave no answer in {in_seconds(seconds)}{tail}")


class CallRejected(ServerError):
    """The server answered a request with a protocol error instead of a result."""

    def __init__(self, server: str, what: str, code: int, message: str, status: int | None = None) -> None:
        self.what = what
        self.code = code
        self.message = message
        self.status = status
        http = f"HTTP {status}: " if status and not message.startswith("HTTP") else ""
        super().__init__(server, f"{what} was rejected: {http}{message} (code {code})")


class InputNeeded(ServerError):
    """The server asks for something in the middle of a request, and nobody here answers that."""

    def __init__(self, server: str, what: str, asked: str) -> None:
        self.what = what
        self.asked = asked
        advice = "nobody here answers it (Toolbus(..., interactions=...) says who does)"
        super().__init__(server, f"{what} {asked}; {advice}")


class ResourceTooLarge(ServerError):
    """A resource is larger than `resource_limit` allows."""

    def __init__(self, server: str, uri: str, size: int, limit: int) -> None:
        self.uri = uri
        self.size = size
        self.limit = limit
        super().__init__(
            server, f"resource {uri!r} has {size:,} bytes, more than the {limit:,} of resource_limit"
        )


class LinkLost(ServerError):
    """The connection ended by itself. If `what` was `sent`, whether it took effect is unknown."""

    def __init__(self, server: str, what: str | None, reason: str, *, sent: bool = True) -> None:
        self.what = what
        self.reason = reason
        self.sent = sent
        effect = ""
        if what is not None:
            effect = (
                f" during {what}; it may or may not have taken effect: check before you repeat it"
                if sent
                else f" before {what} was sent; nothing was done"
            )
        super().__init__(server, f"the connection was lost ({reason}){effect}")
