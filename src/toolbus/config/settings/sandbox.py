"""The `sandbox` of a program: which files, variables and network it gets; nothing else is there for it."""

import os.path
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, TypeAlias

from pydantic import BeforeValidator

from toolbus.config.base import ConfigModel, Texts
from toolbus.config.location import Location
from toolbus.core.values.records import JSON

_HOMES = frozenset({"/home", "/root", "/Users"})
_SYSTEM = (
    *("/etc", "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/boot", "/dev", "/proc"),
    *("/sys", "/var", "/run"),
)


class Sandbox(ConfigModel):
    """The access of a sandboxed program, in addition to its own files and the system's."""

    _expected = "expected true, false, or a mapping with read, write, net and env"

    read: Texts = ()
    """Files and folders that it can read; relative to the config's folder."""
    write: Texts = ()
    """Files and folders that it can read and change; relative to the config's folder."""
    net: bool = False
    """Whether it can use the network, including servers on this machine."""
    env: Texts = ()
    """The names of variables of our environment that it gets, besides PATH, LANG, LC_* and TZ."""

    def texts(self) -> Iterator[tuple[str, str]]:
        """Every text that may contain references, with the name of its key."""
        for key, paths in (("read", self.read), ("write", self.write)):
            yield from ((f"{key}[{index}]", path) for index, path in enumerate(paths))

    @classmethod
    def _from_file(cls, value: JSON) -> dict[str, JSON]:
        return {} if value is True else super()._from_file(value)

    def _check(self) -> None:
        for key, path in self.texts():
            if not path.strip() or "\0" in path:
                raise Location().error("expected a path", key)
            whole = os.path.expanduser(path)
            # A relative one, or one with references, is checked when it is filled in.
            if "${" not in path and os.path.isabs(whole) and (problem := too_wide(whole, key)):
                raise Location().error(problem, key)
        for index, name in enumerate(self.env):
            if not name or "=" in name or "\0" in name:
                raise Location().error("expected the name of a variable; set values in env", f"env[{index}]")


SandboxSetting: TypeAlias = Annotated[
    Sandbox | None, BeforeValidator(lambda value: None if value is False else value)
]


def too_wide(path: str, key: str) -> str | None:
    """The reason why a sandbox with this whole path protects nothing; `key` begins with read or write."""
    real = os.path.realpath(path)
    home = os.path.realpath(os.path.expanduser("~"))
    step = "name the folders that the server needs"
    if real == os.sep:
        return f"is the whole system; {step}"
    if real == home:
        return f"is your whole home folder; {step}"
    if home.startswith(real + os.sep) or real in _HOMES:
        return f"contains whole home folders; {step}"
    if key.startswith("write") and real in {*_SYSTEM, *map(os.path.realpath, _SYSTEM)}:
        return f"is a whole folder of the system; {step}"
    return None


def not_own(path: str, folder: str, config_folder: Path | None) -> str | None:
    """The reason why a whole path is not private to a user, despite the user's name below the folder."""
    real, inside = os.path.realpath(path), os.path.relpath(path, folder)
    if real != os.path.normpath(os.path.join(os.path.realpath(folder), inside)):
        return f"{path!r} is a link or leads through one; a path with the name of a user must not"
    own = None if config_folder is None else os.path.realpath(config_folder)
    if own is not None and (own == real or own.startswith(real + os.sep)):
        return f"{path!r} is no folder of a user: it contains this config"
    if os.path.isfile(real) and os.path.dirname(real) == own:
        return f"{path!r} is no folder of a user: it is a file beside this config"
    return None
