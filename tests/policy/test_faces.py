"""The same call through every face: the same decision, by the same rule, with the same trail."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.policy.faces import FACES, PATIENCE, Answer, case

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.timeout(180),
    # Frameworks keep their HTTP clients open for the next run, which a test never has.
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]
ASKING = {
    "bus": "function",
    "agent": "agent",
    "langchain": "langchain",
    "openai-agents": "openai-agents",
    "pydantic-ai": "pydantic-ai",
    "extension": "openai-agents",
    "cli": "terminal",
}
"""Who asks for each face, as the trail has it."""
SILENT = ("openai-agents", "pydantic-ai", "extension")
"""Frameworks that do not tell their tools of a denial."""


async def through(face: str, folder: Path, text: str, answer: Answer) -> tuple[str, list[Any], list[str]]:
    """What a call through a face came to: what was told, the trail, and who decided."""
    made = await asyncio.to_thread(case, folder, text, answer)
    async with asyncio.timeout(PATIENCE):
        told = await FACES[face](made)
    assert made.faces() <= {"" if face == "bus" else face}
    return told, made.events(), made.deciders()


def lines(text: str, *, rule: str, decision: str, reason: str | None = None) -> list[dict[str, Any]]:
    """The lines of the trail, as every face writes them."""
    about = {"route": "tools/call", "server": "desk", "tool": "echo"}
    decided = {"event": "decided", **about, "rule": rule, "decision": decision, "arguments": {"text": text}}
    if decision == "deny":
        return [{**decided, "reason": reason}]
    return [decided, {"event": "ended", **about, "outcome": "ok"}]
