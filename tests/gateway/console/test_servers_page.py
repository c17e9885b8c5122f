"""The page of the servers: what it shows, lives, restarts and signs in to."""

import sys
from pathlib import Path

import pytest

from tests.gateway.console.opening import Markup, console_over, plain
from tests.gateway.driving import JSON

pytestmark = pytest.mark.anyio

PLAIN = str(Path(__file__).parents[2] / "servers" / "plain.py")


async def test_every_server_is_there_with_its_state_and_its_reason() -> None:
    config: JSON = {
        "servers": {
            "files": {"command": sys.executable, "args": [PLAIN]},
            "gone": {"command": "no-such-command-at-all"},
            "later": {"command": sys.executable, "args": [PLAIN], "lazy": True},
        }
    }
    async with console_over(config) as opened:
        await opened.enter()
        page = await opened.page("servers")
    cards = page.split("<article")[1:]
    shown = [plain(f"<article{card}") for card in cards]
    assert shown[0].startswith("files ready since ")
    assert "transport stdio" in shown[0]
    assert "restarts 0" in shown[0]
    assert shown[1].startswith("gone failed ")
    assert "no-such-command-at-all" in shown[1]
    assert shown[2].startswith("later idle ")
    assert "1 of 3 servers ready" in Markup(page).text
