"""Run the command of a client in the background bus, in a thread of its own."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TextIO, TypeAlias, cast

from toolbus.background.command_line import bus_command
from toolbus.background.passed_terminal import PassedTerminal
from toolbus.cli.output.screen import visible, wrapped
from toolbus.cli.suggested import repeat_config, suggested
from toolbus.cli.terminal import client_terminal, using
from toolbus.config.find import is_own

FAILED = 1
RunLine: TypeAlias = Callable[[Sequence[str]], int]
"""Runs a command line, and returns its exit code."""


def run_command(run: RunLine, terminal: PassedTerminal, words: Sequence[str]) -> int:
    """Run a command line on the terminal of a client; returns the exit code."""
    with using(terminal):
        try:
            _note(terminal, words)
            return run(words)
        except SystemExit as end:
            return end.code if isinstance(end.code, int) else FAILED
        except KeyboardInterrupt:
            return 130
        finally:
            follow_clients()  # the parser wraps the streams of the process when a pipe breaks


def _note(terminal: PassedTerminal, words: Sequence[str]) -> None:
    """Say what differs from a command that would run by itself."""
    bus = terminal.bus
    command = bus_command(words)
    named = None if command is None or command.config is None else Path(command.config)
    repeat_config(named)
    config = bus.follower.config
    if bus.follower.is_reloading:
        _print("the config has changed, but is not in use yet: its new servers are still starting")
    elif (problem := bus.follower.problem) is not None:
        _print(f"the config has changed, but is not in use: {problem}; 'toolbus status' shows it")
    is_named = named is not None or "TOOLBUS_CONFIG" in terminal.environ
    config_folder = config.folder or bus.folder
    expected = terminal.cwd if is_named or is_own(config_folder) else config_folder.resolve()
    floating = [alias for alias, one in config.servers.items() if one.command is not None and one.cwd is None]
    if floating and expected != bus.folder:
        _print(f"{', '.join(floating)}: run in {bus.folder}, where 'toolbus up' was run, not in {expected}")


def _print(text: str) -> None:
    print(wrapped(f"toolbus: {visible(suggested(text))}", sys.stderr), file=sys.stderr, flush=True)


class _Following:
    """A stream of this process that is, in the thread of a command, that of its client."""

    def __init__(self, name: str, own: TextIO) -> None:
        self._name = name
        self._own = own

    def __getattr__(self, attribute: str) -> object:
        client = client_terminal()
        return getattr(self._own if client is None else getattr(client, self._name), attribute)


_following: dict[str, _Following] = {}


def follow_clients() -> None:
    """Have `print` and all else that uses the streams of the process reach the client whose command it is."""
    for name in ("stdin", "stdout", "stderr"):
        if name not in _following:
            _following[name] = _Following(name, getattr(sys, name))
        setattr(sys, name, cast("TextIO", _following[name]))
