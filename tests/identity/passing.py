"""A gateway in front of servers that want the identity of its clients, and these clients."""

from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from tests.auth.resource_server import ResourceServer, resource_server
from tests.gateway.front import Front, LegacySession, front
from tests.gateway.signing import AUDIENCE
from tests.identity.exchanging import SECRET, Exchanging, exchanging
from tests.inside.gateway import access_of
from toolbus.config import bus_config

JSON = dict[str, Any]


@contextmanager
def trusted(folder: Path) -> Generator[tuple[Exchanging, ResourceServer]]:
    """An authorization server, and an MCP server that accepts its tokens for itself."""
    with exchanging() as issuer, resource_server(issuer.issuer, folder) as server:
        yield issuer, server


def exchange(issuer: Exchanging, **more: Any) -> JSON:
    """The `auth` of a server that gets tokens in exchange."""
    auth = {"type": "token_exchange", "issuer": issuer.issuer, "client_id": "gateway"}
    return {**auth, "client_secret": SECRET, **more}


def letting_in(issuer: Exchanging, **more: Any) -> JSON:
    """The `serve` of a gateway for clients with tokens of that authorization server."""
    return {"auth": {"oauth": {"issuer": issuer.issuer, "audience": [AUDIENCE], **more}}}


@asynccontextmanager
async def gateway(servers: JSON, serve: JSON | None = None) -> AsyncGenerator[Front]:
    """The gateway of a config."""
    config = bus_config({"servers": servers, "serve": serve or {}})
    async with front(config={"servers": servers}, access=access_of(config), serve=config.gateway) as served:
        yield served


def bearer(token: str, **more: str) -> dict[str, str]:
    """The headers of a client with a token."""
    return {"authorization": f"Bearer {token}", **more}


async def called(served: Front, name: str, headers: Mapping[str, str], **arguments: Any) -> str:
    """The result of a tool for a modern client with these headers; an error begins with `ERROR`."""
    params = {"name": name, "arguments": arguments}
    answer = (await served.modern("tools/call", params, headers)).json()
    if "error" in answer:
        return f"ERROR {answer['error']['message']}"
    text = "\n".join(block["text"] for block in answer["result"]["content"])
    return f"ERROR {text}" if answer["result"].get("isError") else text


async def names(served: Front, headers: Mapping[str, str]) -> list[str]:
    """The tools that a client sees."""
    return [one["name"] for one in (await served.modern("tools/list", {}, headers)).json()["result"]["tools"]]


def session_with(session: LegacySession, headers: Mapping[str, str]) -> dict[str, str]:
    """The headers of a request in a session, by a client with these."""
    return {**session.headers, **headers}
