"""The base of all errors, and the errors about the config; `core/values/errors.py` has the others."""

import shlex
from collections.abc import Sequence

from toolbus.core.text.text import headed

MOST_CHARACTERS = 100_000
"""Of a message: it may quote what a server or a client sent."""


class ToolbusError(Exception):
    """The base of all errors that toolbus raises."""

    def __init__(self, message: object = "") -> None:
        super().__init__(headed(str(message), MOST_CHARACTERS))


class ConfigError(ToolbusError, ValueError):
    """The config is invalid; `file`, `server` and `key` locate the problem."""

    def __init__(
        self,
        problem: str,
        *,
        file: str | None = None,
        server: str | None = None,
        key: str | None = None,
        mistakes: "Sequence[ConfigError]" = (),
    ) -> None:
        self.problem = problem
        self.file = file
        self.server = server
        self.key = key
        self._mistakes = tuple(mistakes)
        where = [file, f"server {server!r}" if server is not None else None, key]
        super().__init__(": ".join([part for part in where if part] + [problem]))

    @property
    def mistakes(self) -> "tuple[ConfigError, ...]":
        """Each mistake as its own error, if this one lists several; otherwise just this error."""
        return self._mistakes or (self,)


class ConfigNotTrusted(ConfigError):
    """A config was discovered, not named, and the user has not accepted its current content."""

    def __init__(self, file: str, reason: str = "is not trusted yet", *, option: str | None = None) -> None:
        self.reason = reason
        command = shlex.join(["toolbus", "trust", *([option] if option else ()), file])
        super().__init__(f"{reason}; review and accept it: {command}", file=file)
        self.args = (f"{file} {self.problem}",)


class LockError(ConfigError):
    """The lockfile cannot be used as it is; nothing was started, and nothing in it was changed."""

    def __init__(self, path: object, problem: str) -> None:
        super().__init__(problem, file=str(path))
