"""A config file that is edited: as it was read, as a diff, and written if nobody changed it meanwhile.

Keeps the file's comments, order and layout. A trusted file stays trusted; an untrusted one stays untrusted.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import unified_diff
from hashlib import sha256
from pathlib import Path

from toolbus.config.editing.edit import servers_in
from toolbus.config.editing.save import save_in_project
from toolbus.config.hosts.read import document_in, read_content
from toolbus.config.load import config_in
from toolbus.config.secrets.literals import Secret, add_secrets
from toolbus.config.trust import is_trusted, trust_written
from toolbus.core.values.errors import ConfigError, ToolbusError
from toolbus.core.values.records import JSON


@dataclass(frozen=True, slots=True, kw_only=True)
class EditedFile:
    """The file to edit, before the change."""

    path: Path
    text: str = field(default="", repr=False)
    is_named: bool
    """Whether the user named it; such a file needs no trust."""
    is_own: bool
    """Whether all of its content is trusted or the user's own; then it stays trusted after the edit."""

    @property
    def is_blank(self) -> bool:
        """Whether it is empty, apart from comments."""
        return all(not line.strip() or line.lstrip().startswith("#") for line in self.text.splitlines())

    def servers(self) -> Mapping[str, JSON]:
        """Its server entries by alias."""
        return {} if self.is_blank else servers_in(self.text, self.path)

    def fault(self, after: str) -> str | None:
        """The error that this text would add to a valid config; None if there is none."""
        before = _config_error(self.text, self.path)
        return _config_error(after, self.path) if before is None else None

    def write(self, after: str, secrets: Sequence[Secret] = ()) -> str | None:
        """Write the text and the secrets; return why the file is not trusted any more, if it was."""
        add_secrets(self.path.parent, secrets)
        save_in_project(self.path, after.encode())
        return trust_written(self.path, after.encode()) if self.is_own else None


def edited_config(path: Path, *, is_named: bool, shown: Path | None = None) -> EditedFile:
    """The config at that path as it is now; `shown` is its path in messages. ConfigError if it is invalid."""
    content = read_content(path)
    text = content.decode("utf-8", errors="replace")
    edited = EditedFile(path=shown or path, text=text, is_named=is_named, is_own=is_trusted(path))
    if not edited.is_blank:
        document_in(content, path)
    return edited


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
    """What goes to `.env`."""

    @property
    def digest(self) -> str:
        """Differs if the file, or what would be written, is another."""
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

        `EditRefused` if it is not what was shown, or would make the config invalid.
        """
        if self.digest != shown:
            problem = "it has changed since the change was shown; nothing was written: look at it again"
            raise EditRefused(self.file.path, problem)
        if (fault := self.file.fault(self.after)) is not None:
            raise EditRefused(self.file.path, f"the change would make it invalid: {fault}")
        try:
            return self.file.write(self.after, self.secrets)
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise EditRefused(self.file.path, f"cannot be written: {reason}") from error


def _config_error(text: str, path: Path) -> str | None:
    """The error in the config, if any."""
    try:
        config_in(document_in(text.encode(), path), path)
    except ConfigError as error:
        return ": ".join(
            filter(None, (error.server and f"server {error.server!r}", error.key, error.problem))
        )
    return None
