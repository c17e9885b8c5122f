"""Whether a command line is for the background bus, and of which config; read without the parser."""

from collections.abc import Sequence
from dataclasses import dataclass

COMMANDS = frozenset(
    (
        *("tools", "search", "call", "run", "resume", "check", "chat"),
        *("resources", "read", "prompts", "prompt", "skills", "skill"),
    )
)
"""The commands that use a background bus."""
FLAGS = frozenset(("--json", "-v", "-vv", "-vvv", "--verbose", "--no-color", "--debug"))
"""The options that may come before a command, without a value."""
WITH_VALUE = frozenset(
    (
        "--config",
        "--args",
        "--args-file",
        "--timeout",
        "--out",
        "--on-input",
        "--search",
        "--limit",
        "--wait",
        "--model",
        "--approve",
        "--dialect",
    )
)
"""The options of these commands that take the next word as their value."""
NOT_THERE = frozenset(("--no-up", "-h", "--help", "--version"))
"""Options with which a command runs by itself."""


@dataclass(frozen=True)
class BusCommand:
    """A command that may use a background bus."""

    config: str | None
    """The value of `--config`."""


def bus_command(words: Sequence[str]) -> BusCommand | None:
    """The command in these words; None if it runs by itself."""
    config, name = None, None
    remaining = iter(words)
    for word in remaining:
        if word == "--":
            break
        option, equals, value = word.partition("=")
        if word in NOT_THERE:
            return None
        if option in WITH_VALUE and name is None and option != "--config":
            return None  # a mistake, which the parser explains
        if option in WITH_VALUE:
            value = value if equals else next(remaining, "")
            config = value if option == "--config" else config
        elif name is None and word not in FLAGS:
            if word not in COMMANDS:
                return None
            name = word
    return None if name is None else BusCommand(config)
