"""Calls with a lockfile, a policy and an audit trail against calls without any of them, both by toolbus.

Only the path of a call is measured. Its route answers at once, because the time of a server varies by more
than the measured time. Both sides have called a real server before.
"""

import asyncio
import json
import os
import subprocess
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any, cast

from bench.catalogs import TOOLBUS
from bench.measure import Opening, Round, Sides
from bench.sides import bus_entry
from toolbus import Toolbus, ToolResult
from toolbus.core.operation.operation import Operation, Route
from toolbus.records import Text

POLICY: list[dict[str, Any]] = [
    {"tools": "bench/delete_*", "do": "deny", "reason": "use the web page"},
    {"resources": "bench/file:///etc/*", "do": "deny"},
    {"requests": "bench/sampling", "do": "ask"},
    *({"tools": f"bench/never_{number}", "do": "ask"} for number in range(6)),
    {"tools": ["bench/read_*", "bench/echo"], "do": "allow"},
    {"hint": "destructive", "do": "ask"},
]
"""The tenth of eleven rules matches."""
CALLS = 2_000
ANSWER = ToolResult(content=(Text(text="hello"),))
SETTINGS: dict[str, dict[str, Any]] = {
    "plain": {},
    "guarded": {"policy": POLICY, "audit": "audit.jsonl"},
}


def guarded() -> Opening:
    """The same calls, by the time that they take of a CPU in this process."""

    @asynccontextmanager
    async def open_both() -> AsyncGenerator[Sides]:
        with TemporaryDirectory(prefix="bench-") as made:
            plain, locked = (_config(Path(made), name, settings) for name, settings in SETTINGS.items())
            await asyncio.to_thread(_lock, locked, {**os.environ, "XDG_STATE_HOME": made})
            async with Toolbus(plain) as bare, Toolbus(locked) as full:
                for bus in (bare, full):
                    await bus.call("bench_echo", {"text": "hello"})
                    _answer_at_once(bus)
                yield Sides(raw=_round(bare), toolbus=_round(full))

    return open_both


def _config(root: Path, name: str, settings: Mapping[str, Any]) -> Path:
    """A config file in a folder of its own; a lockfile is for all configs of a folder."""
    (root / name).mkdir()
    file = root / name / "toolbus.json"
    file.write_text(json.dumps({"servers": {"bench": bus_entry(None, "modern")}, **settings}))
    return file


def _lock(config: Path, env: Mapping[str, str]) -> None:
    command = [TOOLBUS, "--config", str(config), "lock", "--yes"]
    subprocess.run(command, env=env, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _answer_at_once(bus: Toolbus) -> None:
    async def answer(operation: Operation) -> ToolResult:
        return ANSWER

    routes = bus._bus.engine.path._stations.routes._routes  # pyright: ignore[reportPrivateUsage]
    cast(dict[str, Route], routes)["tools/call"] = answer


def _round(bus: Toolbus) -> Round:
    async def run() -> list[float]:
        began = process_time()
        for _ in range(CALLS):
            await bus.call("bench_echo", {"text": "hello"})
        return [(process_time() - began) / CALLS]

    return run
