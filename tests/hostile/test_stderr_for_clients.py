"""The stderr of a failing server is for its owner: clients of a gateway get the phase and the reason."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from tests import warm
from tests.gateway.driving import Era, client_of, gateway_over
from tests.inside.gateway import ProtocolError
from tests.patience import PATIENCE
from toolbus import ServerDown, Toolbus, ToolbusError, ToolNotFound

pytestmark = pytest.mark.anyio

PRINTED = "Error: cannot read /home/ann/token"
SERVER = f"""
import os, pathlib, sys, time
from mcp.server.mcpserver import MCPServer

mark = pathlib.Path(sys.argv[1])
if mark.exists():
    print({PRINTED!r}, file=sys.stderr)
    sys.exit(3)
server = MCPServer("fragile")

@server.tool()
def end() -> str:
    "End the server."
    mark.touch()
    print({PRINTED!r}, file=sys.stderr, flush=True)
    os._exit(3)

@server.tool()
def hang() -> str:
    "Never answer."
    print({PRINTED!r}, file=sys.stderr, flush=True)
    time.sleep(600)

@server.resource("memo://one")
def one() -> str:
    return "one"

@server.prompt()
def greet() -> str:
    return "hello"

server.run("stdio")
"""


def config_in(folder: Path, **more: Any) -> dict[str, Any]:
    (folder / "fragile.py").write_text(SERVER)
    started = {"command": warm.python(), "args": [str(folder / "fragile.py"), str(folder / "mark")]}
    return {"servers": {"shaky": {**started, "timeouts": {"reconnect": 0}, **more}}}


async def told(client: Any, method: str, params: dict[str, Any]) -> str:
    """The error of a failed request, as a client reads it."""
    try:
        result = await client.request(method, params)
    except ProtocolError as error:
        return json.dumps(error.json)
    assert result["isError"] is True
    return json.dumps(result)


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_server_that_never_starts(era: Era, tmp_path: Path) -> None:
    """Its owner reads what it printed; a client of either era does not."""
    (tmp_path / "mark").touch()
    config = config_in(tmp_path)
    async with Toolbus(config) as bus:
        with pytest.raises(ToolbusError, match="/home/ann/token"):
            await bus.call("shaky_end")
    async with gateway_over(config) as gateway:
        client = await client_of(era, gateway)
        call = await told(client, "tools/call", {"name": "shaky_end", "arguments": {}})
        read = await told(client, "resources/read", {"uri": "memo://one"})
        got = await told(client, "prompts/get", {"name": "shaky_greet"})
    assert "handshake failed: the process ended with exit code 3" in call
    assert "/home/ann" not in call + read + got


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_server_that_ends_and_does_not_come_back(
    era: Era, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The log, which is for its owner, has what it printed."""
    caplog.set_level(logging.WARNING)
    async with gateway_over(config_in(tmp_path)) as gateway:
        client = await client_of(era, gateway)
        call: dict[str, Any] = {"name": "shaky_end", "arguments": {}}
        ended = await told(client, "tools/call", call)
        again = await told(client, "tools/call", call)  # legacy clients may have a second link
        later = await told(client, "tools/call", call)
        read = await told(client, "resources/read", {"uri": "memo://one"})
        got = await told(client, "prompts/get", {"name": "shaky_greet"})
    assert "it may have taken effect" in ended
    for one in (later, read, got):
        assert "not connected" in one
    assert "/home/ann" not in ended + again + later + read + got
    assert "/home/ann" in caplog.text


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_call_that_is_not_answered_in_time(era: Era, tmp_path: Path) -> None:
    """Clients learn the time limit, and nothing that the server printed."""
    config = config_in(tmp_path)
    config["servers"]["shaky"]["timeouts"] = {"call": 1.0, "connect": PATIENCE}
    async with gateway_over(config) as gateway:
        client = await client_of(era, gateway)
        hung = await told(client, "tools/call", {"name": "shaky_hang", "arguments": {}})
    assert "timed out after 1 s" in hung
    assert "/home/ann" not in hung


def test_both_texts_of_an_error_name_the_server() -> None:
    """The text for clients and the text for the owner name the same server."""
    error = ServerDown("a", "failed", None)
    assert str(error) == error.public == "server 'a': not connected (failed)"


async def test_the_owner_reads_why_a_server_is_down_and_clients_read_less(
    tmp_path: Path,
) -> None:
    """Only the owner reads what the server printed."""
    broken = {"command": "python", "args": ["-c", "raise SystemExit('no file /home/ann/notes')"]}
    async with Toolbus({"servers": {"shaky": broken}}) as bus:
        with pytest.raises(ToolNotFound) as caught:
            await bus.call("shaky_add", {})
    error = caught.value
    assert isinstance(error.likely, str)
    assert error.likely in str(error)
    assert "/home/ann" in error.likely
    assert "/home/ann" not in error.public
