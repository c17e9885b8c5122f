"""The URL of a store: `sqlite:///PATH` or `postgresql://USER:PASSWORD@HOST/DATABASE`."""

import os.path
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

Database: TypeAlias = Literal["sqlite", "postgresql"]
EXPECTED = "expected sqlite:///PATH or postgresql://USER@HOST/DATABASE"
_SQLITE = "sqlite:///"
_POSTGRES = ("postgresql", "postgres")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreUrl:
    """The database, and its name in messages."""

    database: Database
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
