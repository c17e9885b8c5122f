"""Commands that a message suggests: they repeat the `--config` that the user has given."""

import re
import shlex
from contextvars import ContextVar
from pathlib import Path

_WORD = r"""(?:'[^']*'(?:"'"'[^']*')*|(?!--(?:\s|$))[\w@%+=:./-]+)"""
_COMMAND = re.compile(
    r"\btoolbus (?:add|approve|call|check|diff|disable|enable|install|lock|login|logins|logout|policy|read"
    rf"|remove|resources|resume|status|tools|up|down)\b(?: {_WORD})*"
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
