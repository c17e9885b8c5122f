"""Calls with a lockfile, a policy and an audit trail against calls without any of them, both by toolbus."""

import asyncio
import json
import os
import subprocess
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any

from bench.catalogs import TOOLBUS
from bench.measure import Opening, Round, Sides
from bench.sides import bus_entry
from bench.work import EACH_IN_FLIGHT, IN_FLIGHT
from toolbus import Toolbus

POLICY: list[dict[str, Any]] = [
    {"tools": "bench/delete_*", "do": "deny", "reason": "use the web page"},
    {"tools": "bench/*", "arguments": {"properties": {"text": {"pattern": "^/etc"}}}, "do": "deny"},
    {"tools": ["bench/read_*", "bench/echo"], "do": "allow"},
    {"hint": "destructive", "do": "ask"},
]
"""The third rule matches, after a schema was checked."""
SETTINGS: dict[str, dict[str, Any]] = {
    "plain": {},
    "guarded": {"policy": POLICY, "audit": "audit.jsonl"},
}


def guarded() -> Opening:
    """The same calls over stdio, by the time that they take of a CPU in this process."""

    @asynccontextmanager
    async def open_both() -> AsyncGenerator[Sides]:
        with TemporaryDirectory(prefix="bench-") as made:
            plain, locked = (_config(Path(made), name, settings) for name, settings in SETTINGS.items())
            await asyncio.to_thread(_lock, locked, {**os.environ, "XDG_STATE_HOME": made})
            async with Toolbus(plain) as bare, Toolbus(locked) as full:
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


def _round(bus: Toolbus) -> Round:
    async def lane() -> None:
        for _ in range(EACH_IN_FLIGHT):
            await bus.call("bench_echo", {"text": "hello"})

    async def run() -> list[float]:
        began = process_time()
        await asyncio.gather(*(lane() for _ in range(IN_FLIGHT)))
        return [(process_time() - began) / (IN_FLIGHT * EACH_IN_FLIGHT)]

    return run
