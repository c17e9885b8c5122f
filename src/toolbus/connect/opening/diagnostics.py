"""The facts a transport knows about its server, for error messages without secrets.

The SDK reports most failures as "connection closed". The diagnostics add the phase, the exit code, the last
lines on stderr, the reason for the loss, and the time of the last activity. Some reasons lie outside the
server: another version of the SDK, a variable that was not passed, or a missing file.
"""

import os
import re
import shlex
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import cast

from pydantic import ValidationError

from toolbus.config import Resolved, ServerConfig
from toolbus.core.loop import Flag
from toolbus.core.text.stderr import error_lines
from toolbus.core.values.errors import Phase

STDERR_LINES = 100
STDERR_WIDTH = 500
STDERR_KEPT = 64 * 1024
"""The number of bytes of an unfinished line to keep: secrets in a line are hidden before it is cut."""
STDERR_RECENT = 40
"""The number of last lines that may explain why the process ended; older ones are about something else."""
STDERR_SHOWN = 10


@dataclass(slots=True)
class HttpActivity:
    """The address of an HTTP server, and its recent activity."""

    host: str
    port: int
    check_interval: float | None
    """Seconds of inactivity after which it is checked; None if a check would only reach a proxy."""
    socket_path: str | None = None
    """The Unix socket of a server that has no port."""
    open_requests: int = 0
    """The number of open requests and streams."""
    last_used: float = field(default_factory=time.monotonic)
    """The time when the last one ended."""


@dataclass(slots=True)
class Diagnostics:
    """The diagnostics of one connection, filled by its transport."""

    phase: Phase = "connect"
    pid: int | None = None
    queued: bool = False
    """Whether the process waits for its turn to start."""
    exit_code: int | None = None
    """The exit code of a process that ended by itself; None if we ended it."""
    stderr: list[str] = field(default_factory=list[str])
    """The last lines on stderr."""
    stderr_count: int = 0
    """The number of lines on stderr so far, including lines that are no longer kept."""
    passed: Collection[str] | None = None
    """The names of the variables that were passed to the process."""
    skipped: int = 0
    """The number of lines of its standard output that were not messages."""
    lost: str | None = None
    """The reason why the connection ended."""
    flood: str | None = None
    """The reason why we ended the connection ourselves, if the server sent too much."""
    lost_by_server: bool = False
    """Whether the server has already ended the session."""
    gone: Flag = field(default_factory=Flag)
    """Set when the connection has ended, for whatever reason."""
    activity: HttpActivity | None = None
    """Set for an HTTP server."""
    _last_active: float = field(default_factory=time.monotonic)
    _cpu_time: float = 0.0

    @property
    def exit_status(self) -> str:
        """The end of the process in words: its exit code, or the signal that killed it."""
        assert self.exit_code is not None
        return f"exit code {self.exit_code}" if self.exit_code >= 0 else f"signal {-self.exit_code}"

    @property
    def inactive(self) -> float:
        """Seconds since the server last sent output or, as a process, used or wanted the CPU."""
        if self.queued:
            return 0.0
        if self.pid is not None:
            cpu_time, is_runnable = _work(self.pid)
            if is_runnable or cpu_time != self._cpu_time:
                self._cpu_time = cpu_time
                self.mark_active()
        return time.monotonic() - self._last_active

    def mark_active(self) -> None:
        self._last_active = time.monotonic()

    @property
    def withheld(self) -> Collection[str]:
        """The variables of our environment that were not passed to the process."""
        return () if self.passed is None else os.environ.keys() - self.passed

    def mark_lost(self, reason: str) -> None:
        """Record that the connection has ended; the first reason counts."""
        if self.lost is None:
            self.lost = reason
        self.gone.set()

    def add_stderr(self, line: str) -> None:
        del self.stderr[: -STDERR_LINES + 1]
        self.stderr.append(line)
        self.stderr_count += 1

    def stderr_tail(self, since: int = 0) -> tuple[str, ...]:
        """The last lines on stderr after the first `since`; the reason first if it is older."""
        lines = self.stderr[-(self.stderr_count - since) :] if self.stderr_count > since else []
        lines = [line for line in lines if line.strip()][-STDERR_RECENT:]
        last, reason = lines[-STDERR_SHOWN:], error_lines(lines)
        return (*(reason if error_lines(last) != reason else ()), *last)


def _work(pid: int) -> tuple[float, bool]:
    """The CPU time of a process and its descendants, and whether one of them waits for the CPU or the disk.

    The time is always growing where the system does not report it.
    """
    ticks, pids = 0.0, [str(pid)]
    try:
        for one in pids:  # which grows
            # After the command in parentheses.
            fields = _read(f"/proc/{one}/stat").rpartition(b")")[2].split()
            if fields[0] in b"RD":
                return time.monotonic(), True
            # User and system time of the process and of its reaped children.
            ticks += sum(map(int, fields[11:15]))
            pids += _read(f"/proc/{one}/task/{one}/children").decode().split()
    except OSError:
        return time.monotonic(), False
    return ticks, False


def _read(path: str) -> bytes:
    # Often, and for many processes: `open` takes several times as long.
    file = os.open(path, os.O_RDONLY)
    try:
        return os.read(file, 4096)
    finally:
        os.close(file)


class RedactedCause(Exception):
    """Stands in for an exception that shows a secret: its class and text, with the secret as `***`."""


def redacted_cause(error: BaseException, redacted: Callable[[str], str]) -> BaseException:
    """The exception; if a secret shows in it, or in an exception that led to it, a stand-in without them."""
    if all(_is_safe(one, redacted) for one in _chain(error)):
        return error
    text = redacted(first_problem(error) if isinstance(error, ValidationError) else str(error))
    stand_in = RedactedCause(f"{type(error).__name__}: {text}")
    return stand_in.with_traceback(error.__traceback__)


def first_problem(error: ValidationError) -> str:
    """The first problem, without the input, which may contain a secret."""
    first = error.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"


def _is_safe(error: BaseException, redacted: Callable[[str], str]) -> bool:
    if isinstance(error, ValidationError):
        return False  # it quotes the input and cuts it, so that a part of a secret may be left
    texts: list[str] = [str(error), repr(error), *getattr(error, "__notes__", ())]
    return all(redacted(text) == text for text in texts)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The exception, those it groups, and those that led to it."""
    todo: list[BaseException | None] = [error]
    seen: set[int] = set()
    while todo:
        one = todo.pop()
        if one is not None and id(one) not in seen:
            seen.add(id(one))
            yield one
            todo += (one.__cause__, one.__context__)
            if isinstance(one, BaseExceptionGroup):
                todo += cast("BaseExceptionGroup[BaseException]", one).exceptions


_COMPLAINT = re.compile(
    r"KeyError|not set|unset|missing|require|must be|must set|not found|not defined|undefined|not provided"
    r"|environment|env var|please (?:set|provide)|export ",
    re.IGNORECASE,
)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{2,}")

DOWNLOADERS = frozenset(
    {"npx", "npm", "pnpm", "yarn", "bun", "bunx", "deno", "uv", "uvx", "pipx", "docker", "podman"}
)
"""Programs that may have to download the server first, so silence is normal."""

_OLD_SDK = re.compile(
    r"No module named 'mcp\.(?!server\.mcpserver)"
    r"|cannot import name '(?!MCPServer'|MCPError'|Client')\w+' from 'mcp['.]"
    r"|module 'mcp[\w.]*' has no attribute"
    r"|'(?:Server|FastMCP|MCPServer)' object has no attribute"
    r" '(?:list_|call_tool|get_prompt|read_resource|set_logging_level|request_context)"
)
"""Python's messages when a server for the MCP SDK before 2.0 runs with a later version."""
_BEFORE_2 = "mcp<2"
_WITH = {"uvx": "uvx", "uv tool run": "uv tool run", "uv run": "uv run", "pipx run": "uvx"}
"""The launcher that takes `--with`, by the launcher of a server."""


def exit_hint(
    config: ServerConfig, values: Resolved, stderr: Sequence[str], withheld: Collection[str]
) -> str:
    """The config change that may help after the process ended; empty if unknown."""
    if hint := old_sdk(values, stderr):
        return hint
    names = missing_variables(stderr, withheld)
    if not names:
        return misplaced_file(values)
    listed = () if isinstance(config.inherit_env, str) else config.inherit_env
    step = f"add inherit_env: [{', '.join([*listed, *names])}] to the config"
    are = "is set here but was" if len(names) == 1 else "are set here but were"
    return f"{', '.join(names)} {are} not passed to the server; {step}"


def old_sdk(values: Resolved, stderr: Sequence[str]) -> str:
    """The way to start a server that was written for the MCP SDK before 2.0; empty if it was not."""
    if not any(map(_OLD_SDK.search, stderr)) or _BEFORE_2 in values.args:
        return ""
    program = os.path.basename(values.command or "")
    words = [program, *values.args]
    launcher = next((one for one in _WITH if words[: len(one.split())] == one.split()), None)
    if launcher is not None:
        options = [*_WITH[launcher].split(), "--with", _BEFORE_2]
        step = f"start it with {values.redacted(shlex.join([*options, *words[len(launcher.split()) :]]))}"
    elif program.startswith("python"):
        # Not in the environment that it has now: toolbus itself may be there, and needs a later SDK.
        python = values.redacted(shlex.quote(values.command or ""))
        step = (
            f"run {python} -m venv old-sdk, install '{_BEFORE_2}' there, and set command: old-sdk/bin/python"
        )
    else:
        step = f"install '{_BEFORE_2}' in its environment"
    return f"it needs the MCP SDK before 2.0; {step}"


def missing_variables(lines: Sequence[str], withheld: Collection[str]) -> list[str]:
    """The withheld variables that these lines of stderr complain about."""
    found: dict[str, None] = {}
    for index, line in enumerate(lines):
        # pydantic prints the field's name in lower case, and the complaint in the next line.
        if any(map(_COMPLAINT.search, lines[index : index + 2])):
            for word in _NAME.findall(line):
                name = word.upper() if "_" in word and word not in withheld else word
                if name in withheld:
                    found[name] = None
    return list(found)


def misplaced_file(values: Resolved) -> str:
    """A hint if a file of the command line is next to the config, but not in the working directory."""
    if values.folder is None:
        return ""
    here = os.path.abspath(values.cwd or "")
    shown = values.redacted(here)
    for word in (values.command or "", *values.args):
        is_path = word and not word.startswith("-") and (word != values.command or os.path.dirname(word))
        if not is_path or os.path.isabs(word) or os.path.exists(os.path.join(here, word)):
            continue
        if os.path.exists(os.path.join(values.folder, word)):
            return f"{values.redacted(word)!r} is not in {shown!r} but next to the config; set cwd: ."
    return ""
