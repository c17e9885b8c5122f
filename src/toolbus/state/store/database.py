"""The interface between a store and its database."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

Values: TypeAlias = Mapping[str, Any]


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

    async def run(self, statement: str, values: Values) -> Done:
        """Run one statement, whole or not at all; `NoTables` if there are none."""
        ...

    async def create(self, statements: Sequence[str], values: Values) -> None:
        """Run statements as one, while nobody else does."""
        ...

    async def local_address(self) -> str | None:
        """The address of this machine that the database sees; None if there is no network between them."""
        ...

    async def close(self) -> None:
        """Release the connections; the next statement opens one again."""
        ...
