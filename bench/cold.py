"""`toolbus call` without a background bus, next to the import of the SDK and the start of the server."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.background import compiled_once, seconds
from bench.fresh import imported, server_started
from bench.measure import Opening, Sides, single
from bench.sides import STDIO


def cold_call(*, locked: bool = False) -> Opening:
    """A whole call in a process of its own, from the second on: the listing of the server is known."""

    @asynccontextmanager
    async def open_both() -> AsyncGenerator[Sides]:
        with TemporaryDirectory(prefix="bench-") as made:
            config = Path(made) / "toolbus.json"
            config.write_text(json.dumps({"servers": {"bench": STDIO}}))
            env = compiled_once(made)
            named = ["--config", str(config)]
            if locked:
                await seconds([*named, "lock", "--yes"], env)

            async def both() -> float:
                return await imported("mcp", env) + await server_started()

            yield Sides(
                raw=single(both),
                toolbus=single(lambda: seconds(["call", *named, "bench_echo", "text=x"], env)),
            )

    return open_both
