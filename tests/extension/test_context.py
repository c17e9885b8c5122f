"""Resources in the context and by a tool, prompts as tools, and servers that ask: keys of the manifest."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests import warm
from tests.conftest import SERVERS
from tests.extension.hosts import Context, run
from tests.patience import PATIENCE
from toolbus import Answer, Elicitation, Interactions
from toolbus.extension import McpBridgeExtension

pytestmark = pytest.mark.anyio

ERAS = ("modern", "legacy")
BOARD = {"server": "asking", "uri": "board://now"}


@asynccontextmanager
async def started(
    era: str, interactions: Interactions | None = None, **config: Any
) -> AsyncGenerator[McpBridgeExtension]:
    """An extension with the server that asks, as a process."""
    args = [str(SERVERS / "asking.py"), "stdio"]
    server = {"alias": "asking", "transport": "stdio", "command": warm.python(), "args": args, "era": era}
    manifest = {"config": {"servers": [server], **config}}
    extension = McpBridgeExtension(manifest, **({"interactions": interactions} if interactions else {}))
    await extension.initialize(Context())
    try:
        await extension.start()
        yield extension
    finally:
        await extension.stop()


def framed(text: str) -> str:
    return f'<resource server="asking" uri="board://now">\n{text}\n</resource>'


@pytest.mark.parametrize("era", ERAS)
async def test_the_context_follows_the_resource(era: str) -> None:
    async with started(era, context=[BOARD]) as extension:
        assert await extension.get_context() == framed("empty")
        await run(extension, "mcp_asking_write", text="Buy tea.")
        async with asyncio.timeout(PATIENCE):  # the notice may come after the result
            while await extension.get_context() != framed("Buy tea."):  # each look lets others run
                pass


async def test_the_context_keeps_to_the_budget_of_the_manifest() -> None:
    async with started("modern", context=[BOARD], context_budget=300) as extension:
        await run(extension, "mcp_asking_write", text="tea " * 2_000)
        text = await extension.get_context()
        assert "characters left out" in text
        assert len(text) < 1_200


@pytest.mark.parametrize("era", ERAS)
async def test_resources_and_prompts_are_tools_where_the_manifest_says_so(era: str) -> None:
    async with started(era, resource_tools="server", prompt_tools=True) as extension:
        names = [tool.name for tool in extension.get_tools()]
        assert {"mcp_asking_read_resource", "mcp_asking_get_prompt_review"} <= set(names)
        assert "empty" in str(await run(extension, "mcp_asking_read_resource", uri="board://now"))
        said = str(await run(extension, "mcp_asking_get_prompt_review", language="go", code="x"))
        assert "Review this go: x" in said


async def test_without_these_keys_there_are_none() -> None:
    async with started("modern") as extension:
        names = [tool.name for tool in extension.get_tools()]
        assert [name for name in names if "resource" in name or "prompt" in name] == []
        assert await extension.get_context() == ""


@pytest.mark.parametrize("era", ERAS)
async def test_the_host_answers_what_a_server_asks(era: str) -> None:
    asked: list[str] = []

    def answer(question: Elicitation) -> Answer:
        asked.append(f"{question.server}: {question.message}")
        return question.accept({"date": "2026-12-24"})

    async with started(era, Interactions(elicit=answer)) as extension:
        told = await run(extension, "mcp_asking_book", guest="Ann")
    assert told == "Ann: 2026-12-24, 2, inside, quiet False"
    assert asked == ["asking: When does Ann come?"]
