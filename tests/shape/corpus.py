"""Real tool definitions: from the folder TOOLBUS_CORPUS (default ../shared/data), if it exists.

Otherwise, they come from the servers that the tests install (`tests/interop/definitions.json`).
"""

import json
import os
from pathlib import Path
from typing import Any

from tests.inside.shape import named
from tests.interop import definitions
from toolbus.records import Origin, ToolSpec

FOLDER = Path(
    os.environ.get("TOOLBUS_CORPUS", Path(__file__).resolve().parents[2] / ".." / "shared" / "data")
)


def source() -> Path:
    """The place of the definitions."""
    return FOLDER.resolve() if FOLDER.is_dir() else definitions.RECORD


def specs() -> list[ToolSpec]:
    """Every tool of the corpus under its public name; new records at every call."""
    found = [(path.stem, tool) for path in sorted(FOLDER.glob("catalogs/*.json")) for tool in _tools(path)]
    found += [(tool["server"], tool) for tool in by_server_name()]
    tools = [_spec(server, tool) for server, tool in found]
    return named("auto", dict.fromkeys((tool.origin.server for tool in tools), None))(tools)


def by_server_name() -> list[Any]:
    """The definitions that name their server: from LiveMCPBench, or the recorded ones."""
    if not FOLDER.is_dir():
        return definitions.recorded()
    return [tool for path in sorted(FOLDER.glob("*/tools.json")) for tool in _tools(path)]


def _tools(path: Path) -> list[Any]:
    read: Any = json.loads(path.read_text(encoding="utf-8"))
    return read if path.name == "tools.json" else read["tools"]


def _spec(server: str, tool: Any) -> ToolSpec:
    return ToolSpec(
        name=tool["name"],
        origin=Origin(server, tool["name"]),
        description=tool.get("description") or "",
        title=tool.get("title"),
        input_schema=tool["inputSchema"],
        output_schema=tool.get("outputSchema"),
        annotations=tool.get("annotations") or {},
    )
