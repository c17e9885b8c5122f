"""The interface between a store and its database, and the URL: `sqlite:///PATH` or `postgresql://USER@HOST/NAME`."""

import os.path
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias
from urllib.parse import urlsplit

Parameters: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Done:
    """The effect of a statement."""

    rows: list[tuple[Any, ...]]
    count: int
    """The number of rows it changed."""


class Unavailable(Exception):
    """The database does not respond now; the text says why, without secrets. It may later."""


class Unusable(Exception):
    """The database responds, and cannot be used; the text says why."""


class NoTables(Exception):
    """The database has no tables of ours yet."""


class Database(Protocol):
    """A database; each method raises `Unavailable` or `Unusable`."""

    async def run(self, statement: str, values: Parameters) -> Done:
        """Run one statement, whole or not at all; `NoTables` if there are none."""
        ...

    async def create(self, statements: Sequence[str], values: Parameters) -> None:
        """Run statements as one, while nobody else does."""
        ...

    async def local_address(self) -> str | None:
        """The address of this machine that the database sees; None if there is no network between them."""
        ...

    async def close(self) -> None:
        """Release the connections; the next statement opens one again."""
        ...


DatabaseName: TypeAlias = Literal["sqlite", "postgresql"]
EXPECTED = "expected sqlite:///PATH or postgresql://USER@HOST/DATABASE"
_SQLITE = "sqlite:///"
_POSTGRES = ("postgresql", "postgres")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreUrl:
    """The database, and its name in messages."""

    database: DatabaseName
    target: str = field(repr=False)
    """The path of the file, or the URL as it was given, with its password."""
    place: str
    """The same for messages, without user, password and options."""


def parse_store_url(text: str, folder: Path | None = None) -> StoreUrl:
    """The parts of the URL; ValueError, without the text, if it is not one of a store.

    As in other Python programs, `sqlite:///file` is relative, to `folder`, and `sqlite:////file` is absolute.
    """
    if text.startswith(_SQLITE) and (given := text.removeprefix(_SQLITE)):
        path = os.path.abspath(os.path.join(folder or "", os.path.expanduser(given)))
        return StoreUrl(database="sqlite", target=path, place=f"sqlite:///{path}")
    # What follows a character that is not encoded would be taken for the host or the database, and shown.
    authority, _, path = text.partition("://")[2].partition("/")
    if {"?", "#"} & set(authority.rpartition("@")[0]) or "@" in path.partition("?")[0]:
        raise ValueError(f"{EXPECTED}; encode special characters of the password: %2F for /")
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise ValueError(EXPECTED) from None
    if parts.scheme not in _POSTGRES:
        raise ValueError(EXPECTED)
    host = f"{parts.hostname or ''}{'' if port is None else f':{port}'}"
    return StoreUrl(database="postgresql", target=text, place=f"postgresql://{host}{parts.path}")
