"""Plays back a task: the recorded result of each call, if the calls come as they were recorded."""

import json
from pathlib import Path
from typing import Any

SAMPLE = Path(__file__).parents[1] / "recorded" / "bfcl.json"


def tools(name: str) -> list[dict[str, Any]]:
    """The definitions of a server."""
    return json.loads(SAMPLE.read_text())["tools"][name]


class Playback:
    """The calls of a task that go to one server."""

    def __init__(self, recorded: list[dict[str, Any]]) -> None:
        self._recorded = recorded
        self._received: list[dict[str, Any]] = []

    def call(self, name: str, arguments: dict[str, Any]) -> tuple[str, bool]:
        number = len(self._received)
        self._received.append({"tool": name, "arguments": arguments})
        expected = self._recorded[number] if number < len(self._recorded) else {}
        if (expected.get("tool"), expected.get("arguments")) != (name, arguments):
            return f"call {number} was recorded otherwise", True
        return expected["result"], False

    def state(self) -> list[dict[str, Any]]:
        """The calls that came."""
        return self._received


def opened(name: str, scenario: dict[str, Any]) -> Playback:
    """A playback from the beginning."""
    return Playback(scenario["recorded"])


def direct(playback: Playback, call: dict[str, Any]) -> tuple[str, bool]:
    """The result of a call without MCP."""
    return playback.call(call["tool"], call["arguments"])
