"""`toolbus call`: one tool, once."""

import math
import time
from pathlib import Path

from toolbus.cli import results
from toolbus.cli.arguments import Given, read
from toolbus.cli.completion import remember
from toolbus.cli.options import Settings
from toolbus.cli.outcome import FAILED, Usage
from toolbus.cli.screen import Screen, one_line
from toolbus.cli.session import awaken, configured, opened
from toolbus.cli.session import run as run_async
from toolbus.config import BusConfig
from toolbus.records import ToolSpec
from toolbus.shape import may_name


def run(settings: Settings, name: str, given: Given, *, timeout: float | None, out: Path | None) -> int:
    """Call the tool; the exit code tells whether it succeeded."""
    if timeout is not None and not (timeout > 0 and math.isfinite(timeout)):
        raise Usage(f"--timeout {timeout:g}: expected a number of seconds above 0")
    if out is not None and out.exists() and not out.is_dir():
        raise Usage(f"--out {str(out)!r} is a file; name a folder")
    return run_async(lambda: _called(settings, name, given, timeout, out))


async def _called(
    settings: Settings, name: str, given: Given, timeout: float | None, out: Path | None
) -> int:
    screen, config = Screen(settings), configured(settings)
    async with opened(screen, config, _likely(config, name)) as bus:
        if name not in bus.catalog:
            # Perhaps a misspelt server: with all of them up, the error can name what was meant.
            await awaken(screen, bus, config)
        spec = await bus.find(name)
        remember(config.file, bus.catalog, [spec.origin.server])
        arguments = read(given, spec)
        began = time.perf_counter()
        with screen.moving(spec.name) as moving:

            def progressed(done: float, total: float | None, message: str | None) -> None:
                moving.came(done, total)
                moving.say(one_line(message or spec.name))

            result = await bus.call(spec.name, arguments, timeout=timeout, on_progress=progressed)
        elapsed = (time.perf_counter() - began) * 1000
    files: results.Saved = {} if out is None else results.saved(result, out, spec.name)
    if screen.as_json:
        screen.json(
            {
                **_facts(spec),
                "is_error": result.is_error,
                "text": result.text,
                "content": results.as_json(result, files),
                "structured": result.structured,
                "elapsed_ms": round(elapsed, 1),
            }
        )
    else:
        results.show(screen, result, files)
    return FAILED if result.is_error else 0


def _facts(spec: ToolSpec) -> dict[str, str]:
    return {"name": spec.name, "server": spec.origin.server, "tool": spec.origin.tool}


def _likely(config: BusConfig, name: str) -> list[str]:
    """The servers that may have a tool of that name: the others need not be started."""
    prefixes = {alias: server.prefix for alias, server in config.servers.items()}
    return [
        alias
        for alias in config.servers
        if name.startswith(f"{alias}/") or may_name(config.naming, prefixes, alias, name)
    ]
