"""The `store` and the `tokens` of a bus: the database that gateways share, and where logins are kept.

Where tokens are kept is a fact about the machine, not about a server, so it is the same for all servers.
"""

import os.path
import re
from pathlib import Path
from typing import Annotated, Literal, Protocol, TypeAlias, runtime_checkable

from pydantic import BeforeValidator, Field, WithJsonSchema, field_serializer

from toolbus.config.base import ConfigModel, Seconds
from toolbus.config.location import Location, is_mapping, near_miss
from toolbus.config.secrets.reference import MASK, Reference, is_shown, parsed
from toolbus.core.values.records import JSON
from toolbus.state.store.database import EXPECTED, parse_store_url

SCHEMES = ("sqlite:///", "postgresql://", "postgres://")


class StoreSetting(ConfigModel):
    """The database that the replicas of a gateway share."""

    _expected = f"{EXPECTED}, or a mapping with url and retention"

    url: Annotated[str, Field(repr=False, min_length=1)]
    """`sqlite:///PATH`, or `postgresql://USER:PASSWORD@HOST/DATABASE`; it may contain references."""
    retention: Seconds | None = None
    """Days for which logins and remembered answers are kept that nobody renews; by default forever."""

    address: str | None = None
    """The address of this replica for the others, as `HOST:PORT`; by default the host of `serve.http`."""
    notice: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 5
    """Seconds that a load balancer has to learn from `/readyz` that this replica will stop."""

    @property
    def shown(self) -> str:
        """The URL without its secrets."""
        return self._masked(self.url)

    @field_serializer("url")
    def _masked(self, text: str) -> str:
        """A reference as written; a URL without its secrets."""
        if is_shown(text):
            return text
        return MASK if "${" in text else parse_store_url(text).place

    @property
    def seconds(self) -> float | None:
        """The retention in seconds."""
        return None if self.retention is None else self.retention * 86_400

    @classmethod
    def _from_file(cls, value: JSON) -> dict[str, JSON]:
        return super()._from_file({"url": value} if isinstance(value, str) else value)

    def _check(self) -> None:
        if self.address is not None and not re.fullmatch(
            r"(\[[0-9A-Fa-f:]+\]|[^:\s]+):\d{1,5}", self.address
        ):
            raise Location().error("expected HOST:PORT, such as 10.0.0.5:7401", "address")
        parts = parsed(self.url, key="url")
        if any(isinstance(part, Reference) for part in parts):
            return  # only known when it is looked up
        try:
            parse_store_url(self.url)
        except ValueError as error:
            raise Location().error(str(error), "url") from None


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
    """The problem with the setting; None if it is valid."""
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
