"""The `tokens` of a bus: where the tokens of people who signed in are kept.

It is a fact about the machine, not about a server, so it is the same for all servers.
"""

import os.path
from pathlib import Path
from typing import Annotated, Literal, Protocol, TypeAlias, runtime_checkable

from pydantic import BeforeValidator, WithJsonSchema

from toolbus.config.location import is_mapping, near_miss

_PLACES = ("auto", "keyring", "memory")
_EXPECTED = "expected auto, keyring, memory, or file:DIR"
_FILE = "file:"


@runtime_checkable
class TokenPlace(Protocol):
    """An object that keeps tokens; see `toolbus.TokenStore`."""

    def load(self, key: str, /) -> object: ...
    def save(self, key: str, value: str, /) -> object: ...
    def remove(self, key: str, /) -> object: ...


def _checked(value: object) -> object:
    if problem := _problem(value):
        raise ValueError(problem)
    return value


TokenSetting: TypeAlias = Annotated[
    Literal["auto", "keyring", "memory"] | str | TokenPlace,
    BeforeValidator(_checked),
    WithJsonSchema({"anyOf": [{"enum": [*_PLACES]}, {"type": "string", "pattern": "^file:."}]}),
]


def tokens_within(setting: TokenSetting, folder: Path | None) -> TokenSetting:
    """The setting with the folder of `file:DIR` as a whole path.

    A relative path is relative to the folder of the config, or to the current one if there is no file.
    """
    if not isinstance(setting, str) or not setting.startswith(_FILE):
        return setting
    path = os.path.expanduser(setting.removeprefix(_FILE).strip())
    return _FILE + os.path.abspath(os.path.join(folder or "", path))


def _problem(value: object) -> str | None:
    """What is wrong with the setting; None if nothing is."""
    if isinstance(value, str):
        return _text_problem(value)
    if is_mapping(value):
        return f"{_EXPECTED}, not a mapping"
    if isinstance(value, type):
        return "expected an object that keeps tokens, not its class"
    if not isinstance(value, TokenPlace):
        return f"{_EXPECTED}; in code also an object with the methods load, save and remove"
    return None


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
