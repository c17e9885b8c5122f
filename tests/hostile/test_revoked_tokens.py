"""Tokens that end while their holders have a stream open."""

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.auth.authorization_server import AuthorizationServer, authorization_server
from tests.auth.clients import CLIENTS
from tests.gateway.front import Events, Front, front, modern_request
from tests.gateway.test_tokens import Door, asked, token_of
from tests.hostile.test_revoked_keys import bearer, outcome
from tests.inside.gateway import ASK_EVERY, REMEMBER_OPAQUE, HttpLimits
from tests.patience import PATIENCE

pytestmark = pytest.mark.anyio

OFTEN = HttpLimits(keepalive_seconds=0.01)
"""Something is sent all the time."""
LISTEN: dict[str, Any] = {"notifications": {"toolsListChanged": True}}
STEPS: dict[str, Any] = {"name": "steps", "arguments": {"wait": True}, "_meta": {"progressToken": "t"}}


@pytest.fixture
def authority() -> Iterator[AuthorizationServer]:
    with authorization_server(clients=CLIENTS) as started:
        yield started


@asynccontextmanager
async def stream(served: Front, token: str, method: str, params: dict[str, Any]) -> AsyncGenerator[Events]:
    """A stream of the holder of a token, on which the first message has come."""
    body, headers = modern_request(method, params, bearer(token))
    async with served.http.stream("POST", served.url, content=body, headers=headers) as response:
        events = Events(response)
        await events.message()
        yield events


async def test_a_token_is_revoked_while_its_streams_are_open(authority: AuthorizationServer) -> None:
    """They end when the issuer is asked again, half a minute later, and the call is cancelled."""
    authority.spoil(format="opaque")
    door = Door(authority, introspection={"client_id": "bot", "client_secret": "${GATEWAY}"})
    token = token_of(authority)
    async with (
        front(OFTEN, access=door.access) as served,
        stream(served, token, "subscriptions/listen", LISTEN) as listening,
        stream(served, token, "tools/call", STEPS) as calling,
    ):
        await asyncio.to_thread(asked, authority, "/token/revocation", token=token)
        door.now.pass_(REMEMBER_OPAQUE)
        for _ in range(ASK_EVERY):
            served.app.tick()
        assert [await outcome(one) for one in (listening, calling)] == ["ends", "ends"]


async def test_a_token_expires_while_its_streams_are_open(authority: AuthorizationServer) -> None:
    """A stream without end ends with it; the answer to an admitted call still comes."""
    door, token = Door(authority), token_of(authority)
    async with (
        front(OFTEN, access=door.access) as served,
        stream(served, token, "subscriptions/listen", LISTEN) as listening,
        stream(served, token, "tools/call", STEPS) as calling,
    ):
        door.now.pass_(3600 + 11)
        assert await outcome(listening) == "ends"
        served.gates.opened.set()
        async with asyncio.timeout(PATIENCE):
            assert (await calling.rest())[-1]["result"]["structuredContent"] == {"result": "done"}
