"""The people who may allow clients: their invites, and the browsers in which they are signed in.

Only the SHA-256 of a link or a cookie is stored. It is in a private file for each config, or in the store
that several gateways share.
"""

import json
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, TypeAlias

from toolbus.gateway.sign_in.request import Person
from toolbus.state.files import config_place, state_folder
from toolbus.state.values import DocumentForm, PrivateValues, Values

INVITE: Literal["invite"] = "invite"
BROWSER: Literal["browser"] = "browser"
EntryKind: TypeAlias = Literal["invite", "browser"]
INVITE_SECONDS = 24 * 3600.0
"""The lifetime of a link without `--expires`."""
BROWSER_SECONDS = 12 * 3600.0
"""The time for which a browser stays signed in. Its clients stay allowed afterwards."""
MOST_BROWSERS = 16
"""The browsers of one person; the oldest gives way to one more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonEntry:
    """An invite, or a browser in which a person is signed in."""

    person: Person
    views: tuple[str, ...]
    """The views that the person may give to clients."""
    created: float
    expires: float


class PersonRegistry:
    """The invites and browsers of one config, or of all gateways that share a store.

    Methods raise OSError or ValueError if their file cannot be used, and StoreError if the store cannot.
    """

    def __init__(self, values: Values) -> None:
        self.values = values

    async def invite(
        self, person: Person, views: Sequence[str], expires: float | None = None
    ) -> tuple[str, PersonEntry]:
        """Make an invite, and return its code, which is not kept. Earlier invites of the person end."""
        await self.revoke(INVITE, person.name)
        end = self.values.now() + INVITE_SECONDS if expires is None else expires
        return await self._add(INVITE, person, views, end)

    async def use(self, code: str) -> PersonEntry | None:
        """Use an invite; only one of several callers gets it."""
        found = await self.find(INVITE, code)
        return found if found is not None and await self.values.remove(INVITE, _digest(code)) else None

    async def sign_in(self, person: Person, views: Sequence[str], replaced: str = "") -> str:
        """Sign a person in, and return the secret for the browser's cookie. Its `replaced` one ends."""
        await self.sign_out(replaced)
        known = await self._all(BROWSER)
        own = sorted((one.created, key) for key, one in known.items() if one.person == person)
        await self._remove(BROWSER, [key for _, key in own[: 1 - MOST_BROWSERS]])
        secret, _ = await self._add(BROWSER, person, views, self.values.now() + BROWSER_SECONDS)
        return secret

    async def sign_out(self, secret: str) -> None:
        if secret:
            await self.values.remove(BROWSER, _digest(secret))

    async def find(self, kind: EntryKind, secret: str) -> PersonEntry | None:
        """The entry with that secret; None if it has ended, or never existed."""
        stored = await self.values.get(kind, _digest(secret))
        found = None if stored is None else _read(stored)
        return None if found is None or found.expires <= self.values.now() else found

    async def all(self, kind: EntryKind) -> list[PersonEntry]:
        """The entries that have not ended, the oldest first."""
        now = self.values.now()
        found = [one for one in (await self._all(kind)).values() if one.expires > now]
        return sorted(found, key=lambda one: one.created)

    async def revoke(self, kind: EntryKind, name: str) -> int:
        """End the entries of a person; returns how many there were."""
        known = await self._all(kind)
        return await self._remove(kind, [key for key, one in known.items() if one.person.name == name])

    async def _add(
        self, kind: EntryKind, person: Person, views: Sequence[str], expires: float
    ) -> tuple[str, PersonEntry]:
        now, secret = self.values.now(), secrets.token_urlsafe(32)
        known = await self._all(kind)
        await self._remove(kind, [key for key, one in known.items() if one.expires <= now])
        made = PersonEntry(person=person, views=tuple(views), created=now, expires=expires)
        await self.values.put(kind, _digest(secret), json.dumps(asdict(made)).encode(), expires - now)
        return secret, made

    async def _all(self, kind: EntryKind) -> dict[str, PersonEntry]:
        items = await self.values.items(kind)
        return {key: found for key, stored in items.items() if (found := _read(stored)) is not None}

    async def _remove(self, kind: EntryKind, keys: list[str]) -> int:
        return sum([await self.values.remove(kind, key) for key in keys])


def person_files(config_file: str | Path, now: Callable[[], float] = time.time) -> PrivateValues:
    """The files for the people of one config file, in the user's state folder."""
    place = f"gateway/{config_place(config_file)[1]}"
    forms = {kind: DocumentForm(path=f"{place}.{kind}s.json") for kind in (INVITE, BROWSER)}
    return PrivateValues(state_folder, forms, now)


def _digest(secret: str) -> str:
    """It has 256 random bits, so that no slower digest is needed."""
    return sha256(secret.encode(errors="surrogateescape")).hexdigest()


def _read(stored: bytes) -> PersonEntry | None:
    """The entry in its JSON; None if another version of toolbus wrote it."""
    with suppress(KeyError, TypeError, ValueError, RecursionError):
        value: Mapping[str, Any] = json.loads(stored)
        person = Person(name=str(value["person"]["name"]), user=str(value["person"]["user"]))
        created, expires = float(value["created"]), float(value["expires"])
        return PersonEntry(person=person, views=tuple(value["views"]), created=created, expires=expires)
    return None
