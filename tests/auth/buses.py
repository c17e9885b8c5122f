"""A bus with one server that wants a token, and the login that it keeps."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.auth.resource_server import ResourceServer
from tests.inside.connect import LinkOwner, OAuthClient, resolve
from tests.inside.core import LoginHandler
from tests.inside.state import Login, open_tokens
from toolbus import Interactions, Toolbus, View
from toolbus.config import Secrets, bus_config


def config(server: ResourceServer, folder: Path, auth: Any = "oauth", **more: Any) -> dict[str, Any]:
    """The server with this `auth`; tokens are kept in the folder."""
    return {"servers": {"guarded": {"url": server.url, "auth": auth, **more}}, "tokens": f"file:{folder}"}


def bus_of(settings: Mapping[str, Any], login: LoginHandler | None = None, **more: Any) -> Toolbus:
    """A bus, with somebody who signs in when asked."""
    return Toolbus(settings, interactions=Interactions(login=login), **more)


async def client_of(settings: Mapping[str, Any]) -> OAuthClient:
    """The client that `toolbus login` uses, for the same config."""
    bus = bus_config(settings)
    server = bus.servers["guarded"]
    owner = LinkOwner(tokens=open_tokens(bus.tokens))
    return OAuthClient(server, await resolve(server, Secrets()), owner)


async def called(bus: View, tool: str, **arguments: Any) -> str:
    """The result of a tool of the server; an error of the tool is unexpected here."""
    result = await bus.call(f"guarded/{tool}", arguments)
    assert not result.is_error, result.text
    return result.text


async def stored(server: ResourceServer, folder: Path, user: str = "") -> Login:
    """The login that is kept in the folder."""
    login = await open_tokens(f"file:{folder}").find(server.url, user)
    assert login is not None
    return login


async def expire(server: ResourceServer, folder: Path, user: str = "") -> None:
    """Wait until the stored token has expired, even for a server whose clock shows whole seconds."""
    while True:
        left = (await stored(server, folder, user)).expires_in
        assert left is not None
        if left < -1:
            return
        await asyncio.sleep(left + 1.1)
