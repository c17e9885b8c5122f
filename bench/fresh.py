"""Pieces of work that need an interpreter of their own: what they took, or what they held."""

import asyncio
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from time import perf_counter
from typing import Literal, TypeAlias

from bench.sides import ROOT, SERVER

Side: TypeAlias = Literal["raw", "toolbus"]
Held: TypeAlias = Literal["tools", "stdio links", "HTTP links", "calls"]

FIRST_LISTING = str(Path(__file__).with_name("first_listing.py"))
DISCOVER = b'{"jsonrpc":"2.0","id":0,"method":"server/discover","params":{}}\n'


async def imported(module: str, env: Mapping[str, str] | None = None) -> float:
    """Seconds of a whole interpreter that imports a module and ends."""
    return await _run("-c", f"import {module}", env=env)


async def first_listing() -> float:
    """Seconds of a whole interpreter that starts toolbus with a stdio server and prints its tools."""
    # -P: the modules beside the script are not for its imports to find.
    return await _run("-P", FIRST_LISTING, *SERVER, "stdio")


async def _run(*arguments: str, env: Mapping[str, str] | None = None) -> float:
    began = perf_counter()
    process = await asyncio.create_subprocess_exec(
        sys.executable, *arguments, env=env, stdout=subprocess.DEVNULL
    )
    assert await process.wait() == 0
    return perf_counter() - began


async def server_started() -> float:
    """Seconds until the server, started as a process, has answered a first request."""
    began = perf_counter()
    process = await asyncio.create_subprocess_exec(
        sys.executable, *SERVER, "stdio", stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(DISCOVER)
    assert b'"result"' in await process.stdout.readline()
    elapsed = perf_counter() - began
    process.stdin.close()  # which ends the server
    assert await process.wait() == 0
    return elapsed


async def held(side: Side, what: Held, count: int, url: str = "") -> float:
    """The bytes that a side holds for each of `count` tools, links or calls."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bench.memory", side, what, str(count), url),
        cwd=ROOT,
        stdout=subprocess.PIPE,
    )
    printed, _ = await process.communicate()
    assert process.returncode == 0
    return int(printed) / count
