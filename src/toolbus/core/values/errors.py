"""The errors of toolbus: what happened, to which server or tool, and the next step.

A tool that reports a failure is not an exception: it returns a `ToolResult` with `is_error`. Call its
`raise_for_error()` to get an exception.
Messages are one line, built from facts that are also available as attributes.
"""

import shlex
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any, Literal, Self

from toolbus.core.text.display import in_seconds, login_line, shortened
from toolbus.core.text.stderr import last_line, quoted
from toolbus.core.text.text import cleaned, headed

__all__ = [
    "ArgumentsError",
    "AuditFailed",
    "AuthRequired",
    "BusClosed",
    "CallDenied",
    "CallTimeout",
    "ConfigError",
    "ConfigNotTrusted",
    "ConnectFailed",
    "ConnectionLost",
    "ExtraMissing",
    "HookFailed",
    "InputNeeded",
    "LockError",
    "LoginRequired",
    "RegistryError",
    "ResourceTooLarge",
    "ScriptNotResumable",
    "SecretMissing",
    "ServerDown",
    "ServerError",
    "ServerNotFound",
    "ServerRejected",
    "ShaperFailed",
    "SignInFailed",
    "SkillRejected",
    "StoreError",
    "TokenStoreError",
    "TooManySessions",
    "ToolFailed",
    "ToolNotFound",
    "ToolbusError",
]

Phase = Literal["configure", "spawn", "connect", "handshake", "list", "call", "sign-in"]
"""The step that failed: resolving values, starting the process, reaching the URL, and so on."""
TokenProblem = Literal["damaged", "newer", "exposed", "unavailable", "unreadable", "unwritable", "busy"]
"""The reason why stored tokens cannot be used."""
INTERNAL_ERROR = -32603
"""The code of JSON-RPC for a failure inside a server."""
FORKED = "it was started before this process was forked, and belongs to the parent"
"""The reason why a bus cannot be used in a forked process."""

_MOST_CHARACTERS = 100_000
"""Of a message: it may quote what a server or a client sent."""


class ToolbusError(Exception):
    """The base of all errors that toolbus raises."""

    sent = True
    """False if nothing was sent to a server; True if it was, or if nobody knows."""

    def __init__(self, message: object = "", public: str | None = None) -> None:
        super().__init__(headed(str(message), _MOST_CHARACTERS))
        self._public = public

    def __reduce__(self) -> tuple[Any, ...]:
        # Subclasses are made of facts, and pickle would give them the message.
        return Exception.__new__, (type(self), *self.args), self.__dict__

    @property
    def public(self) -> str:
        """The message for people who may not see the server's output, such as clients of a gateway."""
        return str(self) if self._public is None else headed(self._public, _MOST_CHARACTERS)


class ConfigError(ToolbusError, ValueError):
    """The config is invalid; `file`, `server` and `key` locate the problem, and `mistakes` lists several.

    On a bus, a server has this error if its entry is invalid, or if the administrator does not permit it.
    Fix: correct the key; the message suggests similar and allowed names.
    """

    def __init__(
        self,
        problem: str,
        *,
        file: str | None = None,
        server: str | None = None,
        key: str | None = None,
        line: int | None = None,
        mistakes: "Sequence[ConfigError]" = (),
    ) -> None:
        self.problem, self.file, self.line = problem, file, line
        """The line in the file, if the config has several files."""
        self.server, self.key = server, key
        self._mistakes = tuple(mistakes)
        place = file if file is None or line is None else f"{file}:{line}"
        where = [place, f"server {server!r}" if server is not None else None, key]
        super().__init__(": ".join([part for part in where if part] + [problem]))

    @property
    def mistakes(self) -> "tuple[ConfigError, ...]":
        """Each mistake as its own error, if this one lists several; otherwise just this error."""
        return self._mistakes or (self,)


class ConfigNotTrusted(ConfigError):
    """A config was discovered, not named, and the user has not accepted its current content.
    Fix: review it with `toolbus trust`, or name the file.
    """

    def __init__(self, file: str, reason: str = "is not trusted yet", *, option: str | None = None) -> None:
        self.reason = reason
        command = shlex.join(["toolbus", "trust", *([option] if option else ()), file])
        super().__init__(f"{reason}; review and accept it: {command}", file=file)
        self.args = (f"{file} {self.problem}",)


class LockError(ConfigError):
    """The lockfile cannot be used as it is; nothing was started, and nothing in it was changed.
    Fix: restore it from version control, or delete it and run `toolbus lock`.
    """

    def __init__(self, path: object, problem: str) -> None:
        super().__init__(problem, file=str(path))


class BusClosed(ToolbusError):
    """The bus is not running: never started, closed, or started before this process was forked.
    Fix: use `async with`, or call `start()` first; create a new bus after `close()`, and in a forked
    process.
    """

    def __init__(
        self,
        what: str = "the bus",
        *,
        started: bool = True,
        reason: str = "",
        how: str = "use `async with`, or await start() first",
    ) -> None:
        self.started = started
        self.sent = started  # it may have been closed during a call
        super().__init__(
            f"{what} is closed{reason and f': {reason}'}; create a new one"
            if started
            else f"{what} is not started; {how}"
        )


class ToolNotFound(ToolbusError, LookupError):
    """The catalog has no tool with that name; `close_matches` lists similar ones.

    `down` lists the servers that are not connected.
    Fix: use a name from `bus.catalog.names`, or `server/tool`; check `bus.servers`.
    """

    sent = False

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
        """The reason why the server that most likely has the tool is not connected, if it is not."""
        shown = headed(name, 200)
        # A similar name on another server would only mislead: a model would call it.
        self.close_matches = [] if likely else list(alike[:3]) or get_close_matches(shown, known, n=3)
        message = f"no tool named {shown!r} among {len(known)}"
        down_names = f"not connected: {', '.join(self.down)}"
        public = None
        if likely:
            message, public = f"{message}: {likely}", f"{message}: {_for_clients(likely)}{remark}"
        elif self.close_matches:
            message += f"; did you mean {' or '.join(map(repr, self.close_matches))}?"
            message += f" ({down_names})" if self.down else ""
        elif self.down:
            message += f"; {down_names}"
        super().__init__(message + remark, public)


class ToolFailed(ToolbusError):
    """A tool reported an error, or was not called (`sent` is False); `text` is the full text of the result.

    Raised only by `ToolResult.raise_for_error`.
    """

    def __init__(self, tool: str | None, text: str, *, sent: bool = True) -> None:
        self.tool, self.text, self.sent = tool, text, sent
        label = "the tool" if tool is None else f"tool {tool!r}"
        outcome = "failed" if sent else "was not called"
        unsaid = "" if sent or "nothing was sent" in text else "; nothing was sent"
        super().__init__(f"{label} {outcome}: {shortened(text, 300) or 'no message'}{unsaid}")


class CallDenied(ToolbusError):
    """The policy, a person or a guard of yours refused an operation: nothing was sent.
    Fix: change the rule, or ask differently; `toolbus policy NAME` explains the decision.
    """

    sent = False

    def __init__(self, what: str, reason: str, rule: str | None = None, *, public: str | None = None) -> None:
        """`rule` is the rule that decided, such as `policy[2]`; `public` the reason for clients."""
        self.what, self.reason, self.rule = what, reason, rule
        super().__init__(f"{what} was refused: {reason}", public and f"{what} was refused: {public}")


class HookFailed(ToolbusError):
    """A hook of the config raised, or returned no result; the call may have been sent.
    Fix: correct the hook, or remove it from `hooks`.
    """

    def __init__(self, hook: str, what: str, problem: str, public: str = "") -> None:
        """`public` is the problem for clients of a gateway."""
        self.hook, self.what, self.problem = hook, what, problem
        head = f"{what} failed: the hook {hook!r}"
        super().__init__(f"{head} {problem}", f"{head} {public or problem}")


class AuditFailed(ToolbusError):
    """The audit log cannot be written or read; while it cannot be written, every call is refused.
    Fix: follow the message: the disk is full, the folder is read-only, or the last line is damaged.
    """

    def __init__(self, path: object, problem: str, step: str) -> None:
        self.path = str(path)
        self.problem, self.step = problem, step
        super().__init__(f"audit log {self.path}: {problem}; {step}")


class ArgumentsError(ToolbusError, TypeError):
    """The arguments of a call are not a mapping, or JSON cannot represent one of them.
    Fix: pass a dict of plain values.
    """

    sent = False

    def __init__(self, what: str, problem: str) -> None:
        self.what, self.problem = what, problem
        super().__init__(f"arguments of {what}: {problem}")


class ShaperFailed(ToolbusError):
    """A shaper raised. The catalog is unchanged, because the shaper may exist to hide tools.
    Fix: correct the shaper; once the bus has started, this is a `Warned` event.
    """

    def __init__(self, shaper: str, error: Exception) -> None:
        self.shaper = shaper
        super().__init__(f"shaper {shaper!r} raised {type(error).__name__}: {error}")


class ExtraMissing(ToolbusError, ImportError):
    """A part of toolbus needs packages that are not installed: `reason` says which, `extra` has them."""

    def __init__(self, part: str, extra: str, reason: str) -> None:
        self.part, self.extra, self.reason = part, extra, reason
        super().__init__(f'{part} cannot be used: {reason}; pip install "toolbus[{extra}]"')


class TokenStoreError(ToolbusError):
    """Stored tokens cannot be read or written; `reason` is why. They were left as they are."""

    def __init__(self, place: str, reason: TokenProblem, problem: str, step: str) -> None:
        self.place, self.reason, self.problem = place, reason, problem
        super().__init__(f"tokens in {place}: {problem}; {step}")


class StoreError(ToolbusError):
    """The store cannot be used; `place` names it, without its password. Its content was left as it is.

    It does not respond, has another key, belongs to a newer version, or is a file that others can read.
    """

    def __init__(self, place: str, problem: str, step: str) -> None:
        self.place, self.problem = place, problem
        super().__init__(f"store {place}: {problem}; {step}")


class RegistryError(ToolbusError):
    """A registry of servers, or a file that it names, cannot be read; nothing was changed."""

    def __init__(self, source: str, problem: str) -> None:
        self.source, self.problem = source, problem
        super().__init__(f"registry {source}: {problem}")


class ScriptNotResumable(ToolbusError):
    """A suspended script cannot be resumed: it is not yours, was changed, has expired, or was resumed before.
    Fix: run the script again, if it may start over.
    """


class ServerError(ToolbusError):
    """An error about one server."""

    def __init__(self, server: str, problem: str, public: str | None = None) -> None:
        self.server = server
        # It may quote the server, and is shown in terminals and to models.
        self.problem = cleaned(problem)
        for_clients = self.problem if public is None else cleaned(public)
        super().__init__(f"server {server!r}: {self.problem}", f"server {server!r}: {for_clients}")


def problem_of(error: Exception) -> str:
    """The message of an error, without the server's name."""
    return error.problem if isinstance(error, ServerError) else str(error)


class DownReason(str):
    """The reason why a server is not connected; `public` is the reason for clients of a gateway."""

    __slots__ = ("public",)
    public: str

    def __new__(cls, reason: str, public: str | None = None) -> Self:
        """`public` is the whole reason by default."""
        made = super().__new__(cls, reason)
        made.public = reason if public is None else public
        return made

    @classmethod
    def of(cls, error: ToolbusError) -> Self:
        """The reason that an error gives, without the name of the server."""
        head = f"server {error.server!r}: " if isinstance(error, ServerError) else ""
        return cls(problem_of(error), error.public.removeprefix(head))


def _for_clients(reason: str | None) -> str | None:
    return reason.public if isinstance(reason, DownReason) else reason


class ServerNotFound(ServerError, LookupError):
    """The bus has no server with that alias, or it is `disabled`."""

    sent = False

    def __init__(self, server: str, known: Sequence[str], *, disabled: bool = False) -> None:
        self.close_matches = get_close_matches(server, known, n=3)
        self.disabled = disabled
        if disabled:
            super().__init__(server, "it is disabled; enable it first")
            return
        hint = (
            f"did you mean {self.close_matches[0]!r}?"
            if self.close_matches
            else f"known servers: {', '.join(known) or 'none'}"
        )
        super().__init__(server, f"unknown server; {hint}")


_SECRET_STEPS = {
    "": "set it in the environment or in a .env beside the config",
    "file": "check the path and the file's permissions",
    "cmd": "run the command yourself; it must print the value",
}


class SecretMissing(ServerError):
    """A reference such as `${NAME}` in the server's config has no value."""

    def __init__(self, server: str, field: str, reference: str, reason: str = "is not set") -> None:
        self.field, self.reference = field, reference
        kind = reference.partition(":")[0] if ":" in reference else ""
        # Reasons from the keyring already include the next step.
        step = "" if kind == "keyring" else f"; {_SECRET_STEPS.get(kind, _SECRET_STEPS[''])}"
        super().__init__(server, f"{field}: secret {reference!r} {reason}{step}")


class ConnectFailed(ServerError):
    """Connecting failed; `phase` is the step that failed.
    Fix: follow the message; the page about errors lists the phases.
    """

    _outcome = "{} failed"
    _has_public_step = False
    """Whether clients of a gateway may read the hint."""

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
        output = quoted(self.stderr)
        problem = f"{self._outcome.format(phase)}: {cause}"
        parts = [problem, f"on stderr: {output}" if output else "", hint]
        whole = "; ".join(filter(None, parts))
        super().__init__(server, whole, whole if self._has_public_step else problem)


class AuthRequired(ConnectFailed):
    """The server rejected the credentials (HTTP 401 or 403), or somebody has to sign in.
    Fix: set `auth: oauth` if the server has a sign-in page; otherwise set `auth` to a token, or set
    `headers`.
    """

    _has_public_step = True

    def __init__(
        self, server: str, phase: Phase, status: int | None, *, cause: str = "", hint: str | None = None
    ) -> None:
        super().__init__(
            server,
            phase,
            cause or f"HTTP {status} {'Unauthorized' if status == 401 else 'Forbidden'}",
            hint=CREDENTIALS_STEP if hint is None else hint,
            status=status,
        )


CREDENTIALS_STEP = "set auth: oauth if it has a sign-in page, else credentials in headers or auth"


class LoginRequired(AuthRequired):
    """Nobody has signed in, or the login can no longer be renewed; `login` is the command.
    Fix: run `toolbus login SERVER`.
    """

    _outcome = "{} required"

    def __init__(
        self, server: str, reason: str, *, user: str = "", scopes: str = "", status: int = 401
    ) -> None:
        self.user, self.reason = user, reason
        self.login = login_line(server, user, scopes)
        super().__init__(server, "sign-in", status, cause=reason, hint=f"sign in: {self.login}")


class SignInFailed(AuthRequired):
    """Signing in is not possible; `step` is the step that failed.
    Fix: follow the message; `toolbus check SERVER` shows it again.
    """

    def __init__(
        self, server: str, step: str, reason: str, *, hint: str = "", status: int | None = None
    ) -> None:
        self.step, self.reason = step, reason
        super().__init__(
            server, "sign-in", status, cause=reason if step == "sign-in" else f"{step}: {reason}", hint=hint
        )


class ServerDown(ServerError):
    """The server is not connected; `state` and `reason` explain why.
    Fix: remove the reason. Calls wait `timeouts.reconnect` seconds for a lost server, and every call
    tries again.
    """

    sent = False

    def __init__(self, server: str, state: str, reason: str | None) -> None:
        self.state, self.reason = state, reason
        down, public = f"not connected ({state})", _for_clients(reason)
        super().__init__(
            server, f"{down}: {reason}" if reason else down, f"{down}: {public}" if public else down
        )


class TooManySessions(ServerError):
    """As many sessions as `limit` allows already have a connection of their own to the server.
    Fix: end a session, or raise `max_sessions`.
    """

    sent = False

    def __init__(self, server: str, limit: int) -> None:
        self.limit = limit
        super().__init__(
            server,
            f"each session has its own connections, and the limit of {limit:,} such sessions is reached; "
            "end one, or raise max_sessions",
        )


class CallTimeout(ServerError, TimeoutError):
    """The server did not respond in time; the request was cancelled.
    Fix: raise `timeouts.call`, or pass `timeout=` to the call.
    """

    def __init__(self, server: str, what: str, seconds: float, stderr: Sequence[str] = ()) -> None:
        self.what, self.seconds = what, seconds
        self.stderr = tuple(stderr)
        output = f"; last line on stderr: {last_line(self.stderr)}" if self.stderr else ""
        problem = f"{what} timed out after {in_seconds(seconds)}"
        super().__init__(server, f"{problem}{output}", problem)


class ServerRejected(ServerError):
    """The server responded with a protocol error, or with something that is not a result.

    Code -32029 comes from a toolbus gateway that has no room for the call; `message` names the limit.
    Fix: check the arguments. At a limit, make fewer calls at a time, or raise it.
    """

    def __init__(
        self,
        server: str,
        what: str,
        code: int,
        message: str,
        status: int | None = None,
        data: object = None,
    ) -> None:
        self.what = what
        self.code = code
        self.message = message
        self.status = status
        self.data = data
        http = f"HTTP {status}: " if status and not message.startswith("HTTP") else ""
        super().__init__(server, f"{what} was rejected: {http}{message} (code {code})")


def too_many_questions(server: str, what: str, limit: int) -> ServerRejected:
    """The error for a server that asks more often than `Interactions.rounds` allows."""
    return ServerRejected(server, what, INTERNAL_ERROR, f"it asked more than {limit} times in one call")


NOBODY_ANSWERS = "nobody can answer here: run it on a terminal, or pass Toolbus(..., interactions=...)"
"""The next step for a question that nobody can be asked."""


class InputNeeded(ServerError):
    """The server needs input in the middle of a request, and nobody can be asked.
    Fix: pass `interactions=` to the bus, or call with `on_input="suspend"`.
    """

    def __init__(self, server: str, what: str, asked: str) -> None:
        self.what, self.asked = what, asked
        super().__init__(server, f"{what} {asked}; {NOBODY_ANSWERS}")


class ResourceTooLarge(ServerError):
    """A resource is larger than `resource_limit` allows."""

    def __init__(self, server: str, uri: str, size: int, limit: int) -> None:
        self.uri, self.size, self.limit = uri, size, limit
        problem = f"resource {uri!r} has {size:,} bytes, over the resource_limit of {limit:,}"
        super().__init__(server, f"{problem}; raise the limit to read it")


class SkillRejected(ServerError):
    """A skill was not loaded: its server does not offer it, or a file differs from its description.
    Fix: load it again, because it may have changed; otherwise, report it to the author of the server.
    """

    def __init__(self, server: str, uri: str, reason: str) -> None:
        self.uri, self.reason = uri, reason
        super().__init__(server, f"skill {uri!r} was not loaded: {reason}")


class ConnectionLost(ServerError):
    """The connection was lost. If `what` was already `sent`, it may or may not have taken effect.
    Fix: check its effect before you retry; tools marked read-only or idempotent are retried for you.
    """

    is_final = False
    """Whether a repetition is known to end the same way: it is on a tape."""

    def __init__(
        self, server: str, what: str | None, reason: str, *, sent: bool = True, output: str = ""
    ) -> None:
        """`output` is the end of what the server printed."""
        self.what, self.sent = what, sent
        self.reason = f"{reason}; on stderr: {output}" if output else reason
        effect = "" if what is None else f" before {what} was sent; nothing was done"
        if what is not None and sent:
            effect = f" during {what}; it may have taken effect: check before you retry"
        lost = "the connection was lost"
        super().__init__(server, f"{lost} ({self.reason}){effect}", f"{lost} ({reason}){effect}")
