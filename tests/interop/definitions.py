"""Tool definitions of the servers in `servers.py`, recorded in `definitions.json`: one line for each tool.

python -m tests.interop.definitions     records them again, after a new version in `install.py`

Tests of real definitions read the record where there is no larger corpus. It saves starting six servers in
every worker of pytest.
"""

import asyncio
import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from tests.interop.servers import SERVERS
from toolbus import Toolbus
from toolbus.records import ToolSpec

RECORD = Path(__file__).with_suffix(".json")


def recorded() -> list[dict[str, Any]]:
    """The tools of the record, each with the alias of its server."""
    return json.loads(RECORD.read_text(encoding="utf-8"))


async def listed(folder: Path) -> list[dict[str, Any]]:
    """The tools that the installed servers list now; `folder` becomes a git repository."""
    await asyncio.to_thread(subprocess.run, ["git", "init", "-q", folder], check=True)
    servers = {alias: server.config(folder) | {"required": True} for alias, server in SERVERS.items()}
    async with Toolbus({"servers": servers}) as bus:
        await bus.wait_ready()
        return [_as_listed(spec) for spec in sorted(bus.catalog, key=lambda spec: str(spec.origin))]


def _as_listed(spec: ToolSpec) -> dict[str, Any]:
    facts = {
        "server": spec.origin.server,
        "name": spec.origin.tool,
        "title": spec.title,
        "description": spec.description,
        "inputSchema": spec.input_schema,
        "outputSchema": spec.output_schema,
        "annotations": dict(spec.annotations),
    }
    return json.loads(json.dumps({key: value for key, value in facts.items() if value}))


def main() -> None:
    """Write the record."""
    with tempfile.TemporaryDirectory() as folder:
        lines = [json.dumps(tool, ensure_ascii=False) for tool in asyncio.run(listed(Path(folder)))]
    RECORD.write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
