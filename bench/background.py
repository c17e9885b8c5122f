"""`toolbus call` in a background bus, next to `toolbus call --help`."""

import asyncio
import json
import os
import subprocess
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

from bench.catalogs import TOOLBUS
from bench.measure import Opening, Sides, single
from bench.sides import STDIO

STARTING = 120.0


def background_call() -> Opening:
    """A whole call of a tool that does nothing, and the help of the same command."""

    @asynccontextmanager
    async def open_both() -> AsyncGenerator[Sides]:
        with TemporaryDirectory(prefix="bench-") as made:
            config = Path(made) / "toolbus.json"
            config.write_text(json.dumps({"servers": {"bench": STDIO}}))
            env = compiled_once(made)
            named = ["--config", str(config)]
            await seconds(["up", *named], env)
            try:
                yield Sides(
                    raw=single(lambda: seconds(["call", "--help"], env)),
                    toolbus=single(lambda: seconds(["call", *named, "bench_echo", "text=x"], env)),
                )
            finally:
                await seconds(["down", *named], env)

    return open_both


def compiled_once(folder: str) -> dict[str, str]:
    """An environment with its state in a folder, and with compiled modules, as of an installed package."""
    env = {name: value for name, value in os.environ.items() if name != "XDG_RUNTIME_DIR"}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    return env | {"PYTHONPYCACHEPREFIX": str(Path(folder, "compiled")), "XDG_STATE_HOME": folder}


async def seconds(words: list[str], env: Mapping[str, str]) -> float:
    """Seconds that a command takes."""
    began = perf_counter()
    process = await asyncio.create_subprocess_exec(
        TOOLBUS, *words, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    async with asyncio.timeout(STARTING):
        assert await process.wait() == 0, words
    return perf_counter() - began
