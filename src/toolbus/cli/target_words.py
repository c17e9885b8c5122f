"""The words of a command line that name a server which no config has. Imports next to nothing."""

from collections.abc import Sequence

TAKING_TARGETS = frozenset(("tools", "check", "verify"))
"""The commands whose arguments may be targets."""


def is_target(word: str) -> bool:
    """Whether an argument is a server to use without a config, and not the name of one."""
    is_file = word.endswith((".json", ".yaml", ".yml", ".mcpb", ".py")) or ".py:" in word
    return "://" in word or word.startswith("registry:") or is_file


def without_command(words: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """The words before `--`, and the command of a server after it; all words if no command follows."""
    if "--" not in words:
        return words, ()
    at = words.index("--")
    command = words[at + 1 :]
    if not command or command[0].startswith("-") or "=" in command[0]:
        return words, ()  # arguments of a tool or script
    return words[:at], command
