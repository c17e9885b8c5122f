"""One server as a library takes it: resources and prompts beside the tools."""

import pytest

from tests.conftest import Place
from toolbus import BusClosed, connect_mcp

pytestmark = pytest.mark.anyio


async def test_a_connection_lists_and_reads_resources_and_prompts(place: Place) -> None:
    async with connect_mcp(place.config()) as mcp:
        assert [resource.uri for resource in await mcp.list_resources()] == ["memo://greeting"]
        assert [part.text for part in await mcp.read_resource("memo://greeting")] == ["hello"]
        assert [prompt.name for prompt in await mcp.list_prompts()] == ["summarise"]
        [message] = (await mcp.get_prompt("summarise", {"text": "this"})).messages
        assert getattr(message.content, "text", None) == "Summarise: this"
    for late in (mcp.list_resources(), mcp.read_resource("memo://greeting"), mcp.get_prompt("summarise")):
        with pytest.raises(BusClosed):
            await late
