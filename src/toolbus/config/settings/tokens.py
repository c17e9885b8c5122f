"""The `tokens` of a bus: where the tokens of people who signed in are kept.

It is a fact about the machine, not about a server, so it is the same for all servers.
"""

import os.path
from pathlib import Path
from typing import Literal, Protocol, TypeAlias, TypeGuard, runtime_checkable

from toolbus.config.location import Location, is_mapping, near_miss
from toolbus.core.values.records import JSON

_PLACES = ("auto", "keyring", "memory")
_EXPECTED = "expected auto, keyring, memory, or file:DIR"
_FILE = "file:"


@runtime_checkable
class TokenPlace(Protocol):
    """An object that keeps tokens; see `toolbus.TokenStore`."""

    def load(self, key: str, /) -> object: ...
    def save(self, key: str, value: str, /) -> object: ...
    def remove(self, key: str, /) -> object: ...


TokenSetting: TypeAlias = Literal["auto", "keyring", "memory"] | str | TokenPlace


def read_tokens(value: JSON, location: Location, folder: Path | None) -> TokenSetting:
    """The setting, with the folder of `file:DIR` as a whole path; ConfigError if it is invalid.

    A relative path is relative to the folder of the config, or to the current one if there is no file.
    """
    if problem := tokens_problem(value):
        raise location.error(problem, "tokens")
    assert _is_setting(value), "no problem"
    if not isinstance(value, str) or not value.startswith(_FILE):
        return value
    path = os.path.expanduser(value.removeprefix(_FILE).strip())
    return _FILE + os.path.abspath(os.path.join(folder or "", path))


def tokens_problem(value: object) -> str | None:
    """What is wrong with the setting; None if nothing is."""
    if isinstance(value, str):
        return _text_problem(value)
    if is_mapping(value):
        return f"{_EXPECTED}, not a mapping"
    if isinstance(value, type):
        return "expected an object that keeps tokens, not its class"
    if not _is_setting(value):
        return f"{_EXPECTED}; in code also an object with the methods load, save and remove"
    return None


def is_tokens(value: object) -> bool:
    """Whether the value is our `tokens`: other hosts may use that key for something else."""
    return isinstance(value, str) and (value in _PLACES or value.startswith(_FILE))


def _is_setting(value: object) -> TypeGuard[TokenSetting]:
    return isinstance(value, str | TokenPlace)


def _text_problem(text: str) -> str | None:
    if text in _PLACES:
        return None
    path = text.removeprefix(_FILE).strip()
    if not text.startswith(_FILE):
        return f"{_EXPECTED}{near_miss(text, _PLACES)}"
    if not path:
        return "names no folder; write file:DIR"
    if "${" in path:
        return "cannot contain a reference; write the path, with ~ for your home"
    if "\0" in path or os.path.expanduser(path).startswith("~"):
        return "is not a path that can be used; write a whole path"
    return None
