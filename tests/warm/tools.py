"""The tools of the servers that most tests use, described once.

Most tests have one of their own, and the SDK would make the models of the same functions for each: nine
tenths of what such a server takes to start.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from mcp.server.mcpserver.tools.base import Tool

SERVERS = Path(__file__).parents[1] / "servers"
FILES = {str(SERVERS / name) for name in ("everyday.py", "asking.py")}


def remember() -> None:
    """From now on, a tool of these servers that was described before only gets its new function."""
    known: dict[object, Tool] = {}
    describe = Tool.from_function

    def from_function(fn: Callable[..., Any], *args: Any, **facts: Any) -> Tool:
        code = fn.__code__
        if code.co_filename not in FILES:
            return describe(fn, *args, **facts)
        key = code.co_filename, code.co_firstlineno, fn.__defaults__, repr((args, facts))
        if key not in known:
            known[key] = describe(fn, *args, **facts)
        return known[key].model_copy(update={"fn": fn})

    Tool.from_function = from_function
