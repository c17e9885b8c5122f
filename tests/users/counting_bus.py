"""Buses with the server of tests/servers/counting.py, which keeps state for each connection."""

from pathlib import Path
from typing import Any

from tests import warm
from tests.conftest import SERVERS
from tests.inside.bus import View
from toolbus import Toolbus


def counting(starts: Path | None = None, **more: Any) -> dict[str, Any]:
    """The entry of a server with a connection for each session."""
    args = ["-I", "-S", str(SERVERS / "counting.py"), *([str(starts)] if starts else [])]
    return {"command": warm.python(), "args": args, "era": "legacy", "per_session": True, **more}


def bus_of(entry: dict[str, Any], **more: Any) -> Toolbus:
    """A bus with that server, `me`."""
    return Toolbus({"servers": {"me": entry}}, **more)


async def text_of(view: View, tool: str, **arguments: Any) -> str:
    """The text of the result of a tool of `me`."""
    return (await view.call(f"me/{tool}", arguments)).text


async def pid_of(view: View) -> int:
    """The process of `me`."""
    return int(await text_of(view, "process"))


def started(starts: Path) -> list[int]:
    """The processes that were started so far."""
    return [int(line) for line in starts.read_text().split()]
