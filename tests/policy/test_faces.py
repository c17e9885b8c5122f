"""The same call through every face: the same decision, by the same rule, with the same trail."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.patience import PATIENCE
from tests.policy.faces import FACES, Answer, case

pytestmark = [
    pytest.mark.anyio,
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
"""The asker for each face, as named in the trail."""
SILENT = ("openai-agents", "pydantic-ai", "extension")
"""Frameworks that do not tell their tools of a denial."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The outcome of a call through one face."""

    told: str
    trail: list[dict[str, Any]]
    """The trail without the fields of one run or one face."""
    by: list[str]
    """The deciders."""


async def outcomes(folder: Path, text: str, answer: Answer, faces: Sequence[str]) -> dict[str, Outcome]:
    """The same call through these faces, each with a config and a trail of its own."""
    found: dict[str, Outcome] = {}
    for face in faces:
        made = await asyncio.to_thread(case, folder / face, text, answer)
        async with asyncio.timeout(PATIENCE):
            told = await FACES[face](made)
        by = [event["by"] for event in made.recorded if event["event"] == "decided"]
        found[face] = Outcome(told=told, trail=made.trail, by=by)
        assert {event.get("face", "bus") for event in made.recorded} <= {face}
    return found


async def test_a_denied_call(tmp_path: Path) -> None:
    found = await outcomes(tmp_path, "secret", None, list(FACES))
    [decided] = found["bus"].trail
    assert decided["definition"].startswith("sha256:")
    assert decided == {
        "definition": decided["definition"],
        "event": "decided",
        "route": "tools/call",
        "server": "desk",
        "tool": "echo",
        "rule": "policy[0]",
        "decision": "deny",
        "reason": "rule policy[0] denies it: it stays here",
        "arguments": {"text": "secret"},
    }
    for face, outcome in found.items():
        assert "was refused: rule policy[0] denies it: it stays here" in outcome.told, face
        assert (face, outcome.by) == (face, ["policy"])
        assert (face, outcome.trail) == (face, found["bus"].trail)


async def test_a_call_that_a_person_approves_once(tmp_path: Path) -> None:
    found = await outcomes(tmp_path, "hello", "once", list(FACES))
    decided, ended = found["bus"].trail
    assert (decided["event"], decided["decision"], decided["rule"]) == ("decided", "allow", "policy[2]")
    assert (ended["event"], ended["outcome"]) == ("ended", "ok")
    for face, outcome in found.items():
        assert outcome.told.endswith("hello"), face
        assert (face, outcome.by) == (face, [ASKING[face]])
        assert (face, outcome.trail) == (face, found["bus"].trail)


async def test_a_call_that_a_person_refuses(tmp_path: Path) -> None:
    found = await outcomes(tmp_path, "hello", "no", list(FACES))
    [decided] = found["bus"].trail
    assert (decided["event"], decided["decision"], decided["rule"]) == ("decided", "deny", "policy[2]")
    for face, outcome in found.items():
        if face in SILENT:
            assert outcome.trail == [], face
            assert "approved" in outcome.told or "denied" in outcome.told, face
            continue
        model = "was refused: a person did not allow it; do not repeat it"
        # On the command line, the person who declined reads it.
        told = "was not run: you declined it" if face == "cli" else model
        assert told in outcome.told, face
        assert (face, outcome.by) == (face, [ASKING[face]])
        assert (face, outcome.trail) == (face, found["bus"].trail)


async def test_a_call_about_which_nobody_can_be_asked(tmp_path: Path) -> None:
    # The others ask whoever runs them, who is there by definition.
    found = await outcomes(tmp_path, "hello", None, ["bus", "agent", "langchain", "cli"])
    [decided] = found["bus"].trail
    assert (decided["event"], decided["decision"], decided["rule"]) == ("decided", "deny", "policy[2]")
    for face, outcome in found.items():
        assert "was refused: rule policy[2] asks a person, and" in outcome.told, face
        assert (face, outcome.by) == (face, ["policy"])
        assert (face, outcome.trail) == (face, found["bus"].trail)
