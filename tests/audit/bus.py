"""A bus whose trail is recorded, and its lines."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.inside.audit import AuditTrail
from tests.inside.config import Audit, Content
from tests.inside.core import Decision, Operation
from tests.servers.asking import asking
from tests.servers.everyday import everyday
from toolbus import Answer, CallDenied, Elicitation, Interactions, Toolbus
from toolbus.records import Sampling, SamplingResult, Text


def answering(day: str = "2026-12-24") -> Interactions:
    """Handlers that answer everything."""

    def elicit(question: Elicitation) -> Answer:
        return question.accept({"date": day})

    def sample(wanted: Sampling) -> SamplingResult:
        return SamplingResult(content=Text(text="A title"), model="m")

    return Interactions(elicit=elicit, sample=sample, roots=["/tmp"])


@asynccontextmanager
async def recorded_bus(
    file: Path, content: Content = "digest", *, denies: str = "", **options: Any
) -> AsyncGenerator[Toolbus]:
    """A bus with two servers and a guard that reports what it decides; it denies one tool."""
    trail = AuditTrail(Audit(file=str(file), content=content))

    async def guard(operation: Operation) -> None:
        if operation.spec.name == denies:
            denied = Decision(
                action="deny", rule="policy[0]", by="policy", definition="sha256:1", reason="no"
            )
            trail.decided(operation, denied)
            raise CallDenied(f"tool {denies!r}", "no")
        trail.decided(operation, Decision(action="allow", by="default"))

    servers = {"day": {"server": everyday()}, "ask": {"server": asking()}}
    options = {"interactions": answering(), **options}
    try:
        async with Toolbus({"servers": servers}, guards=[guard], observers=[trail], **options) as bus:
            yield bus
    finally:
        trail.close()


def lines(file: Path) -> list[dict[str, Any]]:
    """The lines of a trail but for the one that says who writes, without what changes from run to run."""
    found: list[dict[str, Any]] = [json.loads(line) for line in file.read_text().splitlines()]
    chain = found[0]["id"]
    for line in found:
        for key in ("seq", "time", "prev", "hash", "ms"):
            line.pop(key, None)
        for key in ("id", "during"):
            if key in line:
                line[key] = line[key].removeprefix(f"{chain}-")
    return found[1:]
