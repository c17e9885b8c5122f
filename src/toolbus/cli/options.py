"""The options that every command takes, and the commands that a message suggests with them."""

import re
import shlex
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

from toolbus.cli.terminal import TERMINAL, working_folder


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedOptions:
    """The values of the shared options."""

    config: Path | None = None
    profile: str | None = None
    json: bool = False
    verbose: int = 0
    no_color: bool = False
    debug: bool = False

    def merged_with(self, outer: "SharedOptions | None") -> "SharedOptions":
        """Return these settings combined with those given before the command's name."""
        if outer is None:
            return self
        return SharedOptions(
            config=self.config or outer.config,
            profile=self.profile or outer.profile,
            json=self.json or outer.json,
            verbose=max(self.verbose, outer.verbose),
            no_color=self.no_color or outer.no_color,
            debug=self.debug or outer.debug,
        )


def check_config(settings: SharedOptions) -> None:
    """Raise `ConfigError` if there is no config, before slow imports."""
    if settings.config is None and not TERMINAL.get().finds_config():
        raise no_config(working_folder())


def no_config(folder: Path) -> Exception:
    """The error for a folder without a config, which says how to get one."""
    from toolbus.core.values.errors import ConfigError

    return ConfigError(
        f"no config found in {str(folder)!r} or its parents; create one with 'toolbus init', import an "
        "editor's with 'toolbus import', pass one with --config, or try 'toolbus demo'"
    )


# Suggested commands

_WORD = r"""(?:'[^']*'(?:"'"'[^']*')*|(?!--(?:\s|$))[\w@%+=:./-]+)"""
_COMMAND = re.compile(
    r"\btoolbus (?:add|call|check|disable|down|enable|install|lock|login|logout|logs|policy|prompt|read"
    rf"|remove|script|skill|status|tools|up|update)\b(?: {_WORD})*"
)
_option: ContextVar[str] = ContextVar("toolbus_config_option", default="")
"""The option of this command."""


def repeat_config(path: Path | None) -> None:
    """Repeat this `--config` from now on, if there is one."""
    _option.set("" if path is None else f" --config {shlex.quote(str(path))}")


def suggested(text: str) -> str:
    """The message, with the option in every command that it names."""
    return _COMMAND.sub(lambda found: _repeated(found.group()), text) if _option.get() else text


def _repeated(command: str) -> str:
    has_own = re.search(r" --(?:config|help)\b", command) is not None
    return command if has_own else f"{command}{_option.get()}"
