"""The survey itself: its list is pinned, and it notices if the SDK's client is better."""

import asyncio
import json
import re
import sys

import pytest

from tests.conftest import SERVERS
from tests.survey.compare import LIST, Published, compared, published, together, verdict


def test_every_server_of_the_list_has_an_exact_version_and_is_there_once() -> None:
    entries = json.loads(LIST.read_text())
    assert all(re.fullmatch(r"\d[\w.]*", entry["version"]) for entry in entries)
    servers = published(LIST.read_text())
    assert len({server.name for server in servers}) == len(servers) >= 72
    old = next(server for server in servers if server.name == "mcp-server-sqlite")
    assert old.command[:5] == ("uvx", "--with", "mcp<2", "--from", "mcp-server-sqlite==2025.4.25")


@pytest.mark.parametrize(
    ("sdk", "toolbus", "is_worse"),
    [(3, 3, False), (3, 4, False), (3, 2, True), (3, None, True), (None, 3, False), (None, None, False)],
)
def test_fewer_tools_or_no_connection_is_worse(sdk: int | None, toolbus: int | None, is_worse: bool) -> None:
    assert verdict(sdk, toolbus).startswith("WORSE") == is_worse


def test_both_clients_list_a_server_and_are_compared() -> None:
    server = Published(name="plain", command=(sys.executable, str(SERVERS / "plain.py")))
    row = asyncio.run(compared(server))
    assert (row.sdk.tools, row.toolbus.tools, row.verdict) == (1, 1, "same")
    found = asyncio.run(together([server, server]))
    assert (found.tools, found.problems) == ({"plain": 1}, {})
