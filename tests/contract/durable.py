"""Our own tables of durable runs; the tables of DBOS are its own."""

import asyncio
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.patience import PATIENCE
from toolbus.agent import Agent
from toolbus.agent.durable import Durable
from toolbus.testing import ScriptedModel, ToolCall


def send(to: str) -> str:
    """Send a letter."""
    return f"sent to {to}"


def recorded() -> dict[str, Any]:
    """The tables with their columns, and the names of the steps of a run."""
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "runs.db"
        asyncio.run(_run(store))
        with closing(sqlite3.connect(store)) as database:
            rows = database.execute("select name, sql from sqlite_master where name like 'toolbus%'")
            tables = {f"table {name}": " ".join(sql.split()) for name, sql in rows}
            steps = database.execute("select function_id, function_name from operation_outputs")
            return {**tables, "steps": sorted([number, name] for number, name in steps)}


async def _run(store: Path) -> None:
    model = ScriptedModel([ToolCall("send", {"to": "Ann"}), "done"])
    async with (
        asyncio.timeout(PATIENCE),
        Agent(model, tools=[send], durable=Durable(store=str(store))) as agent,
    ):
        await agent.start("write to Ann", key="letter").final
