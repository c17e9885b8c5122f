"""A worker's notes about a run besides its steps: calls that it is about to make, and questions.

A call is noted before it is made, unless it may be repeated. A later execution that finds a note without a
recorded step cannot know whether the call took effect. Only the owner of a run can note anything.
"""

import asyncio
import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import sqlalchemy as sa

from toolbus.agent.durable.questions import WaitingCall
from toolbus.agent.durable.store import dbos_private as seam
from toolbus.core.values.records import JSON

TABLES = (
    """
CREATE TABLE IF NOT EXISTS toolbus_intents (
    run TEXT NOT NULL,
    number INTEGER NOT NULL,
    tool TEXT NOT NULL,
    arguments TEXT NOT NULL,
    at DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (run, number)
)
""",
    """
CREATE TABLE IF NOT EXISTS toolbus_questions (
    run TEXT NOT NULL,
    number INTEGER NOT NULL,
    id TEXT NOT NULL,
    question TEXT NOT NULL,
    closed INTEGER NOT NULL,
    PRIMARY KEY (run, number)
)
""",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """A call that an execution was about to make."""

    tool: str
    arguments: Mapping[str, JSON]
    at: float
    """The time, in seconds since the epoch."""


@dataclass(slots=True)
class Notes:
    """The notes of one run, as its worker knows them."""

    run: str
    intents: Mapping[int, Intent] = field(default_factory=dict[int, Intent])
    """The intents of earlier executions, by the number of the step."""
    asked: dict[int, WaitingCall] = field(default_factory=dict[int, WaitingCall])
    """All questions, by the number of the step that waits for the answer."""

    async def load(self) -> dict[int, str]:
        """Read what earlier executions noted; the names of the steps that they recorded."""
        return await asyncio.to_thread(seam.owned, self.run, self._load)

    def _load(self, connection: sa.Connection) -> dict[int, str]:
        self.intents = intents_of(connection, self.run)
        self.asked = questions_of(connection, [self.run]).get(self.run, {})
        return seam.step_names(connection, self.run)

    async def intend(self, number: int, tool: str, arguments: Mapping[str, JSON]) -> None:
        values = {"tool": tool, "arguments": json.dumps(dict(arguments), default=repr), "at": time.time()}
        statement = sa.text("INSERT INTO toolbus_intents VALUES (:run, :number, :tool, :arguments, :at)")
        await self._write(statement, {"number": number, **values})

    async def ask(self, number: int, asked: WaitingCall) -> None:
        """Show a question until `close`."""
        self.asked[number] = asked
        statement = sa.text("INSERT INTO toolbus_questions VALUES (:run, :number, :id, :question, 0)")
        await self._write(
            statement, {"number": number, "id": asked.id, "question": json.dumps(asked.to_json())}
        )

    async def close(self, number: int) -> None:
        """Show a question no more."""
        statement = sa.text("UPDATE toolbus_questions SET closed = 1 WHERE run = :run AND number = :number")
        await self._write(statement, {"number": number})

    async def _write(self, statement: sa.TextClause, values: Mapping[str, Any]) -> None:
        write = partial(sa.Connection.execute, statement=statement, parameters={"run": self.run, **values})
        await asyncio.to_thread(seam.owned, self.run, write)


def intents_of(connection: sa.Connection, run: str) -> dict[int, Intent]:
    """The calls that were noted, by the number of the step."""
    rows = connection.execute(
        sa.text("SELECT number, tool, arguments, at FROM toolbus_intents WHERE run = :run"), {"run": run}
    )
    return {number: Intent(tool=tool, arguments=json.loads(said), at=at) for number, tool, said, at in rows}


def questions_of(
    connection: sa.Connection, runs: Iterable[str], *, only_open: bool = False
) -> dict[str, dict[int, WaitingCall]]:
    """The questions of each run, by the number of the step that waits for the answer."""
    statement = sa.text(
        "SELECT run, number, question FROM toolbus_questions WHERE run IN :runs"
        + (" AND closed = 0" if only_open else "")
        + " ORDER BY run, number"
    ).bindparams(sa.bindparam("runs", expanding=True))
    found: dict[str, dict[int, WaitingCall]] = {}
    for run, number, question in connection.execute(statement, {"runs": list(runs)}):
        found.setdefault(run, {})[number] = WaitingCall.from_json(json.loads(question))
    return found


def forget(connection: sa.Connection, run: str) -> None:
    for table in ("toolbus_intents", "toolbus_questions"):
        connection.execute(sa.text(f"DELETE FROM {table} WHERE run = :run"), {"run": run})  # ours
