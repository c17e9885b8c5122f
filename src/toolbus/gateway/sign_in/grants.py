"""Grants: what a person allowed a client. A grant lives as long as its refresh tokens, a family.

A grant never changes while it is used, so replicas can keep a copy in memory. Its `Turn` changes with each
refresh. A grant that was revoked is gone, and its tokens with it.
"""

import json
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from toolbus.state.files import config_place, state_folder
from toolbus.state.values import DocumentForm, FileForm, Mirror, PrivateValues, Records, Values

GRANT = "sign-in grant"
TURN = "sign-in turn"
SECRET = "sign-in secret"
CODE_SECONDS = 60.0
"""Seconds in which a client has to exchange its code."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """The access of one client, in the name of one person."""

    id: str
    person: str
    """The name of the person."""
    user: str
    """The user whose logins and secrets the calls use; empty: the logins of the bus itself."""
    client_id: str
    client_name: str
    resource: str
    """The URL that the tokens are for."""
    scopes: tuple[str, ...]
    views: tuple[str, ...]
    """The views that it may use, its own first."""
    created: float
    expires: float
    """The time when a person has to sign in again; soon, until the code is used."""

    def is_for(self, endpoint: str) -> bool:
        """Whether its tokens are for the MCP endpoint with that URL, or for one of its views."""
        return f"{self.resource}/".startswith(f"{endpoint}/")


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """The number of times that tokens were issued for a grant; 0 until the code is used."""

    number: int
    renewed: float = 0.0
    """The time when the last tokens were issued."""
    code_challenge: str = ""
    redirect_uri: str = ""


class StoredGrants:
    """The grants of one config, or of all gateways that share a store.

    Methods raise OSError or ValueError if their files cannot be used, and StoreError if the store cannot.
    """

    def __init__(self, values: Values, mirror: Mirror | None = None) -> None:
        """With a `mirror` of the grants, reading them does not wait for a database."""
        self.values = values
        self.mirror = mirror
        self._records = Records(values, GRANT, read_grant, mirror)
        self.now = values.now

    @property
    def version(self) -> object:
        """Differs whenever the grants have changed; None if there are none."""
        return self._records.version

    def by_id(self) -> dict[str, Grant]:
        """The grants, also those that have expired."""
        return self._records.all()

    def all(self) -> list[Grant]:
        """The grants that are in use, the oldest first."""
        current = [grant for grant in self.by_id().values() if self.now() < grant.expires]
        return sorted(current, key=lambda grant: grant.created)

    async def renewed(self) -> dict[str, float]:
        """The time when each grant got its last tokens."""
        turns = await self.values.items(TURN)
        return {grant_id: Turn(**json.loads(turn)).renewed for grant_id, turn in turns.items()}

    def revoke(self, grant_id: str) -> bool:
        """Revoke a grant, for a thread that may wait; returns whether there was one."""
        return self.values.wait(self.end(grant_id))

    async def end(self, grant_id: str) -> bool:
        """Revoke a grant; returns whether there was one."""
        was_there = await self.values.remove(GRANT, grant_id)
        await self.values.remove(TURN, grant_id)
        return was_there

    async def add(self, grant: Grant, turn: Turn) -> None:
        """Keep a new grant until its code expires, and forget grants that have expired."""
        for grant_id, value in (await self.values.items(GRANT)).items():
            with suppress(KeyError, TypeError, ValueError):
                if read_grant(json.loads(value)).expires <= self.now():
                    await self.end(grant_id)
        await self.values.put(TURN, grant.id, _encoded(turn), CODE_SECONDS)
        await self.values.put(GRANT, grant.id, _encoded(grant), CODE_SECONDS)

    async def found(self, grant_id: str) -> tuple[Grant, Turn] | None:
        """A grant as it is stored now, with its turn; None if it was revoked or has expired."""
        grant, turn = await self.values.get(GRANT, grant_id), await self.values.get(TURN, grant_id)
        if grant is None or turn is None:
            return None
        known = read_grant(json.loads(grant))
        return (known, Turn(**json.loads(turn))) if self.now() < known.expires else None

    async def begin(self, grant: Grant, turn: Turn, seconds: float) -> Grant | None:
        """Use the code of a grant, which then lasts this long; None if it was used or revoked meanwhile."""
        if not await self.advance(grant, turn, seconds):
            return None
        lasting = replace(grant, expires=self.now() + seconds)
        is_kept = await self.values.swap(GRANT, grant.id, _encoded(grant), _encoded(lasting), seconds)
        return lasting if is_kept else None

    async def advance(self, grant: Grant, turn: Turn, seconds: float) -> bool:
        """Begin the next turn of a grant; False if somebody else did, so that this turn is used up."""
        following = Turn(number=turn.number + 1, renewed=self.now())
        return await self.values.swap(TURN, grant.id, _encoded(turn), _encoded(following), seconds)


def grant_files(config_file: str | Path, now: Callable[[], float] = time.time) -> PrivateValues:
    """The files for the grants of one config, and for the secret that their tokens are made with."""
    file = f"gateway/{config_place(config_file)[1]}"
    damaged = "{path} {reason}; delete it, and have everyone sign in again"
    forms = {
        GRANT: DocumentForm(path=f"{file}.grants.json", damaged=damaged),
        TURN: DocumentForm(path=f"{file}.turns.json", damaged=damaged),
        SECRET: FileForm(path=f"{file}.sign-in", is_secret=True),
    }
    return PrivateValues(state_folder, forms, now)


def read_grant(stored: Any) -> Grant:
    """The grant in its JSON; KeyError, TypeError or ValueError if it is not one."""
    fields: dict[str, Any] = {**stored, "scopes": tuple(stored["scopes"]), "views": tuple(stored["views"])}
    return Grant(**fields)


def _encoded(record: Grant | Turn) -> bytes:
    return json.dumps(asdict(record)).encode()
