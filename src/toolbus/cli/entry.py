"""The `toolbus` program: runs a command in the background bus of its config, if there is one, or by itself.

Until that is known, nothing is imported that takes time, and the command line is read without the parser.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass

from toolbus.cli.target_words import TAKING_TARGETS, is_target, without_command

IN_BACKGROUND = frozenset(
    (
        *("tools", "search", "call", "script", "check", "chat", "read", "prompt", "skill"),
        *("run", "resume", "resources", "prompts", "skills"),  # their old names
    )
)
"""The commands that use a background bus."""
FLAGS = frozenset(("--json", "-v", "-vv", "-vvv", "--verbose", "--no-color", "--debug"))
"""The options that may come before a command, without a value."""
WITH_VALUE = frozenset(
    (
        "--config",
        "--profile",
        "--args",
        "--args-file",
        "--timeout",
        "--out",
        "--on-input",
        "--resume",
        "--search",
        "--limit",
        "--wait",
        "--model",
        "--approve",
        "--dialect",
        "--server",
        "--save",
        "--header",
        "--env",
        "--record",
        "--replay",
        "--tape-mode",
        "--match-ignore",
        "--match-pattern",
    )
)
"""The options of these commands that take the next word as their value."""
WITH_WORDS = frozenset(("search", "call", "resume", "read", "prompt", "skill"))
"""The commands that need an argument, which may come after `--`."""
NOT_THERE = frozenset(("--no-up", "--registry", "--record", "--replay", "-h", "--help", "--version"))
"""Options with which a command runs by itself."""


@dataclass(frozen=True)
class BackgroundCommand:
    """A command that may use a background bus."""

    config: str | None
    """The value of `--config`."""
    profile: str | None = None
    """The value of `--profile`; each profile has a background bus of its own."""


def background_command(words: Sequence[str]) -> BackgroundCommand | None:
    """The command in these words; None if it runs by itself."""
    config, profile, name, has_words = None, None, None, False
    before, command = without_command(words) if "--" in words else (words, ())
    remaining = iter(before)
    for word in remaining:
        if word == "--":
            break
        option, equals, value = word.partition("=")
        if option in NOT_THERE or option == "--server" or (name in TAKING_TARGETS and is_target(word)):
            return None
        if option in WITH_VALUE and name is None and option not in ("--config", "--profile"):
            return None  # a mistake, which the parser explains
        if option in WITH_VALUE:
            value = value if equals else next(remaining, "")
            config = value if option == "--config" else config
            profile = value if option == "--profile" else profile
        elif name is None and word not in FLAGS:
            if word not in IN_BACKGROUND:
                return None
            name = word
        elif name in ("script", "run") and word == "save" and not has_words:
            return None  # it edits the config
        else:
            has_words = has_words or not word.startswith("-")
    is_apart = bool(command) and (has_words or name not in WITH_WORDS)
    return None if name is None or is_apart else BackgroundCommand(config, profile)


def main() -> None:
    """Run the program."""
    command = background_command(sys.argv[1:])
    if command is not None and sys.platform != "win32":
        from toolbus.background.client import run_in_background

        code = run_in_background(command.config, sys.argv[1:], command.profile)
        if code is not None:
            sys.exit(code)
    from toolbus.core.collector import collect_rarely

    collect_rarely()  # of what the imports make, nearly all stays
    from toolbus.cli.app import main as run_here

    run_here()
