"""`make bench-results`: the tokens of real results with and without `override.X.result`.

The results are on a tape, recorded from published servers. `python -m bench.results record` starts the
servers with npx and records them again.
"""

import asyncio
import json
import random
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.interop.servers import INTEROP, NODE
from toolbus import Toolbus
from toolbus.shape.budget import estimated_tokens

FOLDER = Path(__file__).with_name("recorded")
TAPE = FOLDER / "results.jsonl"
PLACE = "/tmp/toolbus-results"
"""What the servers read while they are recorded; the arguments of the recorded calls name it."""
TOKENIZERS = INTEROP / "tokenizers"


class Recorded(NamedTuple):
    """A call on the tape, with the part of its result that a model needs."""

    package: str
    server: str
    tool: str
    arguments: dict[str, Any]
    keep: list[str]

    @property
    def name(self) -> str:
        return f"{self.server}/{self.tool}"


CALLS = (
    Recorded(
        "@cyanheads/git-mcp-server@2.15.3",
        "git",
        "git_log",
        {"path": PLACE, "maxCount": 25},
        ["shortHash", "subject"],
    ),
    Recorded("mcp-sqlite@1.0.9", "sqlite", "read_records", {"table": "orders"}, ["id", "customer", "total"]),
    Recorded(
        "@modelcontextprotocol/server-memory@2026.8.31",
        "memory",
        "read_graph",
        {},
        ["entities.name", "entities.observations"],
    ),
)
WAYS: dict[str, dict[str, Any]] = {
    "as sent": {},
    "keep": {"table": "never"},
    "keep, table": {"table": "auto"},
}


async def shown(call: Recorded, way: str) -> str:
    """The text of a recorded result, as a model gets it."""
    result = {"keep": call.keep, **WAYS[way]} if WAYS[way] else None
    only: dict[str, Any] = {"prefix": "", "include": [call.tool]}
    entry = {**only, "command": "recorded"} | (
        {"override": {call.tool: {"result": result}}} if result else {}
    )
    async with Toolbus({"servers": {call.server: entry}}, replay=TAPE) as bus:
        got = await bus.tool(call.tool).execute(**call.arguments)
        return got.text.replace(got.meta["toolbus"]["whole"], "r7") if result else got.text


def counted(texts: Sequence[str]) -> list[list[int]]:
    """The tokens of each text, by o200k_base and by the tokenizer of Claude 2."""
    command = [NODE, str(FOLDER / "count.mjs"), str(TOKENIZERS)]
    done = subprocess.run(command, input=json.dumps(texts), capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


async def table() -> list[str]:
    """The rows of the table: each result in each way."""
    cells = [(call, way) for call in CALLS for way in WAYS]
    texts = [await shown(call, way) for call, way in cells]
    lines = ["| result | form | o200k | Claude 2 | estimate |", "|---|---|---|---|---|"]
    first: list[int] = []
    for (call, way), text, tokens in zip(cells, texts, counted(texts), strict=True):
        counts = [*tokens, estimated_tokens(text)]
        first = counts if way == "as sent" else first
        shares = [
            f"{n:,}" if n == whole else f"{n:,} ({n / whole:.0%})"
            for n, whole in zip(counts, first, strict=True)
        ]
        lines.append(f"| `{call.tool}` of {call.package.rpartition('@')[0]} | {way} | {' | '.join(shares)} |")
    return lines


async def record() -> None:
    """Record all calls from the servers themselves."""
    _prepare()
    settings: dict[str, Any] = {
        "git": {
            "env": {"MCP_TRANSPORT_TYPE": "stdio", "MCP_LOG_LEVEL": "error", "MCP_RESPONSE_FORMAT": "json"}
        },
        "sqlite": {"args": [f"{PLACE}/shop.db"]},
        "memory": {"env": {"MEMORY_FILE_PATH": f"{PLACE}/memory.jsonl"}},
    }
    servers = {
        call.server: {
            "command": "npx",
            "env": settings[call.server].get("env", {}),
            "args": ["-y", call.package, *settings[call.server].get("args", [])],
            "timeouts": {"connect": 600},
        }
        for call in CALLS
    }
    async with Toolbus({"servers": servers}, record=TAPE) as bus:
        for call in CALLS:
            (await bus.call(call.name, call.arguments)).raise_for_error()
    lines = [json.loads(line) for line in TAPE.read_text().splitlines()]
    TAPE.write_text(
        "".join(f"{json.dumps(_cut(line))}\n" for line in lines if line.get("list", "tools") == "tools")
    )


def _prepare() -> None:
    """Make what the servers read: a repository, a database and a graph."""
    folder = Path(PLACE)
    folder.mkdir()
    for line in _commits():
        subprocess.run(["git", "-C", folder, *line], check=True, capture_output=True)
    _fill(folder / "shop.db")
    (folder / "memory.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in _graph()))


def _cut(line: dict[str, Any]) -> dict[str, Any]:
    """A line of the tape, without tools that are not called."""
    if "items" in line:
        line["items"] = [item for item in line["items"] if item["name"] in {call.tool for call in CALLS}]
    return line


def _commits() -> Iterator[list[str]]:
    """Commands of git: the last subjects of this repository, by one invented person."""
    log = ["git", "-C", str(FOLDER), "log", "--no-merges", "-25", "--format=%s"]
    subjects = subprocess.run(log, check=True, capture_output=True, text=True).stdout.splitlines()
    yield ["init", "-q", "."]
    person = ["-c", "user.name=Ann Example", "-c", "user.email=ann@example.com"]
    for subject in reversed(subjects):
        yield [*person, "commit", "-q", "--allow-empty", "-m", subject]


def _fill(file: Path) -> None:
    """A table of 25 orders with nine columns."""
    chance, names = random.Random(7), ("Ann Lee", "Bob Stone", "Cy Park", "Dee Hall")
    with sqlite3.connect(file) as database:
        database.execute(
            "create table orders (id, customer, email, street, city, country, status, total, created)"
        )
        for number in range(1001, 1026):
            name = chance.choice(names)
            at = ("12 Main Street", "Springfield", "US")
            status, total = chance.choice(("paid", "sent", "open")), chance.randrange(500, 20_000) / 100
            row = (number, name, f"{name.split()[0].lower()}@example.com", *at, status, total)
            day = f"2026-10-{chance.randrange(1, 31):02}T09:30:00Z"
            database.execute("insert into orders values (?, ?, ?, ?, ?, ?, ?, ?, ?)", (*row, day))


def _graph() -> Iterator[dict[str, Any]]:
    """Fifteen people of a project, and who works with whom."""
    for number in range(15):
        said = [f"reviews part {number % 4} of the gateway", f"is away on day {number + 3} of each month"]
        yield {"type": "entity", "name": f"person-{number}", "entityType": "person", "observations": said}
    for number in range(14):
        ends = {"from": f"person-{number}", "to": f"person-{number + 1}"}
        yield {"type": "relation", **ends, "relationType": "works_with"}


if __name__ == "__main__":
    if sys.argv[1:] == ["record"]:
        asyncio.run(record())
    else:
        print("\n".join(asyncio.run(table())))
