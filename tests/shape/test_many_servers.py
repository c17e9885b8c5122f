"""A bus with many servers: the catalog is complete when it is needed, and is not built once for each."""

import pytest
from mcp.server.mcpserver import MCPServer

from tests.inside.bus import live_catalog
from toolbus import Toolbus
from toolbus.events import CatalogChanged

pytestmark = pytest.mark.anyio


def server(number: int) -> MCPServer:
    made: MCPServer = MCPServer(f"s{number}")

    @made.tool()
    def echo(text: str) -> str:  # pyright: ignore[reportUnusedFunction]
        return text

    return made


async def test_servers_that_come_up_together_are_one_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """If a rebuild takes long, a reader of the catalog still gets all tools meanwhile."""
    monkeypatch.setattr(live_catalog, "_QUICK", 0.0)
    changes: list[CatalogChanged] = []
    bus = Toolbus({"servers": {f"s{number}": {"server": server(number)} for number in range(40)}})
    bus.on_event(lambda event: changes.append(event) if isinstance(event, CatalogChanged) else None)
    async with bus:
        assert len(bus.catalog) == 40
        assert {name for change in changes for name in change.added} == {f"s{n}_echo" for n in range(40)}
        assert len(changes) < 20
        assert (await bus.call("s39_echo", {"text": "hello"})).text == "hello"
