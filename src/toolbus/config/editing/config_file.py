"""A change of a config file that a person is shown first: its diff, and writing exactly what was shown."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from difflib import unified_diff
from hashlib import sha256
from pathlib import Path

from toolbus.config.editing.edited import EditedFile
from toolbus.config.secrets.literals import Secret
from toolbus.core.values.errors import ToolbusError


class EditRefused(ToolbusError):
    """A change of a config file was not written."""

    def __init__(self, file: Path, problem: str) -> None:
        self.file = file
        super().__init__(f"{file}: {problem}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigEdit:
    """A change of a config file that a person has yet to agree to."""

    file: EditedFile
    after: str = field(repr=False)
    secrets: Sequence[Secret] = field(default=(), repr=False)
    """The values for `.env`."""

    @property
    def digest(self) -> str:
        """The digest of the file and the change: a form sends it back."""
        parts = [str(self.file.path), self.file.text, self.after]
        parts += [text for one in self.secrets for text in (one.name, one.value)]
        return sha256("\0".join(f"{len(part)}:{part}" for part in parts).encode(errors="replace")).hexdigest()

    @property
    def diff(self) -> list[str]:
        """The lines that change, with those around them; each begins with a space, `+`, `-` or `@@`."""
        before, after = self.file.text.splitlines(), self.after.splitlines()
        return list(unified_diff(before, after, lineterm="", n=2))[2:]

    def save(self, shown: str) -> str | None:
        """Write it if `shown` is its digest; return why the file is not trusted any more, if it was.

        `EditRefused` if the file or the change differs from it, or if the config would be invalid.
        """
        if self.digest != shown:
            problem = "it has changed since the change was shown; nothing was written: look at it again"
            raise EditRefused(self.file.path, problem)
        if (fault := self.file.problem_with(self.after)) is not None:
            raise EditRefused(self.file.path, f"the change would make it invalid: {fault}")
        try:
            return self.file.save(self.after, self.secrets) or None
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise EditRefused(self.file.path, f"cannot be written: {reason}") from error
