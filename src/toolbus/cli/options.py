"""The options that every command takes, and the commands that a message suggests with them."""

import re
import shlex
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from toolbus.cli.terminal import TERMINAL, working_folder
from toolbus.core.values.errors import CREDENTIALS_STEP


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetOptions:
    """The servers that a command uses instead of a config, as they were typed."""

    servers: tuple[str, ...] = field(default=(), repr=False)
    command: tuple[str, ...] = field(default=(), repr=False)
    """The command of one more server."""
    save: str | None = None
    headers: tuple[str, ...] = field(default=(), repr=False)
    env: tuple[str, ...] = field(default=(), repr=False)
    yes: bool = False


TapeMode = Literal["once", "all", "new_episodes", "none"]
TapeLevel = Literal["schema", "shape", "result"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TapeOptions:
    """The tape that a command records or replays, as it was typed."""

    record: Path | None = None
    replay: Path | None = None
    mode: TapeMode | None = None
    ignore: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    """Each a path and a glob: `PATH=GLOB`."""
    in_order: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedOptions:
    """The values of the shared options."""

    config: Path | None = None
    profile: str | None = None
    json: bool = False
    verbose: int = 0
    no_color: bool = False
    debug: bool = False
    target: TargetOptions | None = None
    tape: TapeOptions | None = None

    def merged_with(self, outer: "SharedOptions | None") -> "SharedOptions":
        """Return these settings combined with those given before the command's name."""
        if outer is None:
            return self
        return replace(
            self,
            config=self.config or outer.config,
            profile=self.profile or outer.profile,
            json=self.json or outer.json,
            verbose=max(self.verbose, outer.verbose),
            no_color=self.no_color or outer.no_color,
            debug=self.debug or outer.debug,
        )


def check_config(settings: SharedOptions, server: str = "") -> None:
    """Raise `ConfigError` if there is no config, before slow imports; `server` is the word typed instead."""
    if settings.target is not None:
        return
    if settings.config is None and not TERMINAL.get().finds_config():
        raise no_config(working_folder(), server=server)


def no_config(folder: Path, found: str = "", *, server: str = "") -> Exception:
    """The error for a folder without a config, which says how to get one; `found` are servers of editors."""
    from toolbus.core.values.errors import ConfigError

    missing = f"no config found in {str(folder)!r} or its parents"
    if server:
        forms = "a URL (start it with http://), a Python file or a server of a config"
        shown = repr(server) if re.fullmatch(r"[\w./\\: -]{1,200}", server) else "that"  # no secret of a URL
        missing = f"{shown} is not {forms}; {missing}"
    if found:
        return ConfigError(
            f"{missing}, but {found}: use them with 'toolbus import --write', add another with 'toolbus "
            "add', or use one without a config with 'toolbus tools URL'"
        )
    return ConfigError(
        f"{missing}; create one with 'toolbus init' or 'toolbus import', pass one with --config, "
        "use one server with 'toolbus tools URL', or try 'toolbus demo'"
    )


# Suggested commands

_WORD = r"""(?:'[^']*'(?:"'"'[^']*')*|(?!--(?:\s|$))[\w@%+=:./-]+)"""
_COMMAND = re.compile(
    r"\btoolbus (?:add|call|check|disable|down|enable|install|lock|login|logout|logs|policy|prompt|read"
    rf"|remove|script|skill|status|tools|up|update)\b(?: {_WORD})*"
)
_option: ContextVar[str] = ContextVar("toolbus_config_option", default="")
"""The option of this command."""
_sign_in: ContextVar[str] = ContextVar("toolbus_sign_in_step", default="")
"""The step to suggest when no config has an entry for the server."""
_WITH_TARGETS = re.compile(r"toolbus (?:call|check|read|resources|resume|tools)\b")


def repeat_config(path: Path | None) -> None:
    """Repeat this `--config` from now on, if there is one."""
    _option.set("" if path is None else f" --config {shlex.quote(str(path))}")


def repeat_target(option: str, sign_in: str) -> None:
    """Repeat this `--server` from now on; `sign_in` is the next step if the server wants credentials."""
    _option.set(option)
    _sign_in.set(sign_in)


def suggested(text: str) -> str:
    """The message, with the option in every command that it names."""
    if not _option.get():
        return text
    found = _COMMAND.sub(lambda found: _repeated(found.group()), text)
    return found.replace(CREDENTIALS_STEP, _sign_in.get()) if _sign_in.get() else found


def _repeated(command: str) -> str:
    option = _option.get()
    has_own = re.search(r" --(?:config|help|server)\b", command) is not None
    is_without = bool(_sign_in.get()) and not _WITH_TARGETS.match(command)
    return command if has_own or is_without else f"{command}{option}"
