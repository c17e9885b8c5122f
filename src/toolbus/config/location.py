"""The location of a value in the config, so that every error names file, server and key.

No message quotes a value, because it may be a secret.
"""

import re
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TypeGuard

from toolbus.core.values.errors import ConfigError
from toolbus.core.values.records import JSON


def is_mapping(value: object) -> TypeGuard[Mapping[JSON, JSON]]:
    """Whether the value is a mapping."""
    return isinstance(value, Mapping)


def is_list(value: object) -> TypeGuard[Sequence[JSON]]:
    """Whether the value is a list or a tuple; a string is neither."""
    return isinstance(value, list | tuple)


def near_miss(word: object, known: Iterable[str]) -> str:
    """The end of an error message that suggests the closest known word, or nothing."""
    names = list(known)
    close = get_close_matches(str(word), names, n=1) or get_close_matches(str(word).lower(), names, n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def near_tool(name: str, servers: Iterable[str]) -> str:
    """The end of an error message that suggests `server/tool` for the public name of a tool, or nothing."""
    found = [alias for alias in servers if re.match(rf"{re.escape(alias)}_+[^_/]", name)]
    alias = max(found, key=len, default="")
    return f"; did you mean {f'{alias}/' + name.removeprefix(alias).lstrip('_')!r}?" if alias else ""


def joined(mistakes: Sequence[ConfigError]) -> ConfigError:
    """One error that lists all the mistakes; a single mistake is returned as it is."""
    if len(mistakes) == 1:
        return mistakes[0]
    files, servers = {error.file for error in mistakes}, {error.server for error in mistakes}
    file = mistakes[0].file if len(files) == 1 else None
    server = mistakes[0].server if len(servers) == 1 else None
    listed = [
        str(
            ConfigError(
                error.problem,
                file=error.file if file is None else None,
                line=error.line if file is None else None,
                server=error.server if server is None else None,
                key=error.key,
            )
        )
        for error in mistakes
    ]
    numbered = " ".join(f"({number}) {text}" for number, text in enumerate(listed, start=1))
    return ConfigError(f"{len(listed)} mistakes: {numbered}", file=file, server=server, mistakes=mistakes)


class Mistakes(list[ConfigError]):
    """The mistakes found so far, so that the user sees all of them at once."""

    @contextmanager
    def collected(self) -> Generator[None]:
        """Collect a ConfigError raised inside the block, and continue after it."""
        try:
            yield
        except ConfigError as error:
            for mistake in error.mistakes:
                # A bus keeps it for a long time, and the traceback's frames hold values, including secrets.
                mistake.__traceback__ = mistake.__context__ = None
                self.append(mistake)

    def raise_any(self) -> None:
        """Raise one ConfigError with all mistakes, if there are any."""
        if self:
            raise joined(self)


def printable(key: str) -> str:
    """The key, quoted if it would break the message's single line."""
    return key if key.isprintable() else repr(key)


@dataclass(frozen=True, slots=True)
class ValueOrigin:
    """The place of a value: its file, and the line there if it is known."""

    file: str | None = None
    line: int | None = None

    def __str__(self) -> str:
        return str(self.file) if self.line is None else f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    """A file and a server in it; either may be unknown."""

    file: str | None = None
    server: str | None = None
    origin: Callable[[str | None, str | None], ValueOrigin] | None = None
    """The origin of a server's key or of a setting, if the config has several files."""

    def error(self, problem: str, key: str | None = None) -> ConfigError:
        """The error for this problem, for the caller to raise."""
        shown = None if key is None else printable(key)
        place = ValueOrigin(self.file) if self.origin is None else self.origin(self.server, key)
        return ConfigError(problem, file=place.file, line=place.line, server=self.server, key=shown)

    def unknown_key(self, key: object, known: Iterable[str], within: str = "") -> ConfigError:
        """The error for an unknown key, with the closest known one."""
        problem = f"unknown key{near_miss(key, known)}"
        return self.error(problem, f"{within}.{key}" if within else str(key))

    def unknown_restriction(self, key: object, meant: str) -> ConfigError:
        """The error for a key that may be a misspelled restriction."""
        hint = "" if key == meant else f"; did you mean {meant!r}?"
        return self.error(
            f"unknown key, not ignored because it may be a misspelled restriction{hint}", str(key)
        )

    def relocated(self, error: ConfigError, key: Callable[[str | None], str | None]) -> ConfigError:
        """The same mistakes at this location; `key` maps each mistake's key to its full key."""
        return joined([self.error(mistake.problem, key(mistake.key)) for mistake in error.mistakes])

    def mapping(self, value: JSON, key: str) -> Mapping[JSON, JSON]:
        """The value as a mapping; ConfigError if it is not one."""
        if not is_mapping(value):
            raise self.error("expected a mapping", key)
        return value

    def names(self, value: JSON, key: str) -> tuple[str, ...]:
        """The value as a tuple of strings; ConfigError if it is not a list of strings."""
        if not is_list(value) or not all(isinstance(name, str) for name in value):
            raise self.error("expected a list of strings", key)
        return tuple(value)
