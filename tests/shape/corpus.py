"""Real tool definitions, read from the folder TOOLBUS_CORPUS (default ../shared/data) when it is there."""

import json
import os
from pathlib import Path
from typing import Any

from toolbus.records import Origin, ToolSpec
from toolbus.shape import named

FOLDER = Path(
    os.environ.get("TOOLBUS_CORPUS", Path(__file__).resolve().parents[2] / ".." / "shared" / "data")
)


def absent() -> str | None:
    """Why there is no corpus, if there is none."""
    return None if FOLDER.is_dir() else f"no folder {FOLDER}; name one by TOOLBUS_CORPUS"


def specs() -> list[ToolSpec]:
    """Every tool of the corpus under its public name; new records at every call."""
    found = [(path.stem, tool) for path in sorted(FOLDER.glob("catalogs/*.json")) for tool in _tools(path)]
    found += [(tool["server"], tool) for path in sorted(FOLDER.glob("*/tools.json")) for tool in _tools(path)]
    tools = [_spec(server, tool) for server, tool in found]
    return named("auto", dict.fromkeys((tool.origin.server for tool in tools), None))(tools)


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
