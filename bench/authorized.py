"""Calls with a valid OAuth token against calls without any credential, both by toolbus."""

import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from bench.measure import Opening, Sides
from bench.sides import bus_calls, bus_entry
from bench.work import Work
from toolbus import Toolbus
from toolbus.connect.auth.tokens import DpopKey
from toolbus.state.tokens.tokens import Login, MemoryTokens, open_tokens

HOUR = 3600.0
TOKEN = "t" * 43
"""As long as an opaque token of oidc-provider; a longer one takes the server longer to read."""


async def signed_in(url: str, *, with_key: bool) -> MemoryTokens:
    """The store of somebody who has signed in to a server."""
    store, key = MemoryTokens(), DpopKey.generate() if with_key else None
    now = time.time()
    login = Login(
        issuer="https://id.example.com",
        resource=url,
        access=TOKEN,
        type="DPoP" if key else "Bearer",
        renewed_at=now,
        expires_at=now + HOUR,
        jwk=key.jwk if key else None,
    )
    await open_tokens(store).save(login)
    return store


def authorized(url: str, work: Work, *, with_key: bool = False) -> Opening:
    """The same calls without and with a token; with a key, each one also carries a proof (DPoP)."""

    @asynccontextmanager
    async def open_both() -> AsyncGenerator[Sides]:
        config = {
            "servers": {"bench": {**bus_entry(url, "modern"), "auth": "oauth"}},
            "tokens": await signed_in(url, with_key=with_key),
        }
        async with bus_calls(url, "modern") as plain, Toolbus(config) as bus:
            yield Sides(
                raw=lambda: work(plain),
                toolbus=lambda: work(lambda tool, text: bus.call(f"bench_{tool}", {"text": text})),
            )

    return open_both
